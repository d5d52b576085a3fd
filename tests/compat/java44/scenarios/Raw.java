import java.io.*;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/** One connection that sends what no client would: any message in any version. */
final class Raw implements AutoCloseable {
    private static final int ANSWER_MS_MAX = 20_000;
    private final Socket socket;
    private final DataInputStream in;
    private int correlationId;

    Raw(String bootstrap) throws IOException {
        int colon = bootstrap.lastIndexOf(':');
        socket = new Socket(bootstrap.substring(0, colon), Integer.parseInt(bootstrap.substring(colon + 1)));
        socket.setSoTimeout(ANSWER_MS_MAX);
        in = new DataInputStream(socket.getInputStream());
    }

    /** Returns the fields of the response as text, or "closed". */
    String ask(ApiKeys api, int version, ApiMessage request) throws IOException {
        return String.valueOf(message(api, version, version, request));
    }

    /** As above, with the response in another version than the request. */
    ApiMessage message(ApiKeys api, int version, int responseVersion, ApiMessage request) throws IOException {
        short headerVersion = api.requestHeaderVersion((short) Math.min(version, api.latestVersion()));
        var header = new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion((short) version)
            .setClientId("raw").setCorrelationId(++correlationId);
        short bodyVersion = (short) Math.min(version, api.latestVersion());
        var cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + request.size(cache, bodyVersion);
        ByteBuffer frame = ByteBuffer.allocate(4 + size).putInt(size);
        var writer = new ByteBufferAccessor(frame);
        header.write(writer, cache, headerVersion);
        request.write(writer, cache, bodyVersion);
        socket.getOutputStream().write(frame.array());
        byte[] answer;
        try {
            answer = new byte[in.readInt()];
            in.readFully(answer);
        } catch (EOFException | java.net.SocketException closed) {
            return null;
        }
        var reader = new ByteBufferAccessor(ByteBuffer.wrap(answer));
        new ResponseHeaderData().read(reader, api.responseHeaderVersion((short) responseVersion));
        ApiMessage response = ApiMessageType.fromApiKey(api.id).newResponse();
        response.read(reader, (short) responseVersion);
        return response;
    }

    @Override public void close() throws IOException {
        socket.close();
    }
}
