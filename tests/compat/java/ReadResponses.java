// Reads responses of brokers with Kafka's own Java classes. Each line of the input is an API key, a
// version and the frame in hex (without its length); each line of the output its body as JSON.
// Ends with an error at the first frame that is not exactly such a response.
//   java -cp "$KAFKA_LIBS/*" ReadResponses.java < lines
import com.fasterxml.jackson.databind.JsonNode;
import java.io.*;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.*;

public class ReadResponses {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            ApiKeys api = ApiKeys.forId(Integer.parseInt(words[0]));
            short version = Short.parseShort(words[1]);
            ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            try {
                new ResponseHeaderData(new ByteBufferAccessor(frame), api.responseHeaderVersion(version));
                ApiMessage body = api.messageType.newResponse();
                body.read(new ByteBufferAccessor(frame), version);
                if (frame.hasRemaining()) throw new IOException(frame.remaining() + " bytes too many");
                System.out.println((JsonNode) Class.forName(body.getClass().getName() + "JsonConverter")
                    .getMethod("write", body.getClass(), short.class).invoke(null, body, version));
            } catch (Exception error) {
                throw new IOException(api + " v" + version + ": " + words[2], error);
            }
        }
    }
}
