import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

/** A TCP proxy in front of a broker that can cut its connections. */
final class Proxy implements AutoCloseable {
    private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();

    Proxy(String target) throws IOException {
        int colon = target.lastIndexOf(':');
        run(() -> {
            while (true) {
                Socket near = server.accept();
                Socket far = new Socket(target.substring(0, colon), Integer.parseInt(target.substring(colon + 1)));
                sockets.addAll(List.of(near, far));
                run(() -> copy(near, far));
                run(() -> copy(far, near));
            }
        });
    }

    String address() {
        return "127.0.0.1:" + server.getLocalPort();
    }

    void cut() throws IOException {
        for (Socket each : sockets) each.close();
        sockets.clear();
    }

    private static void copy(Socket from, Socket to) throws IOException {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void run(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // The connection or the proxy is closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override public void close() throws IOException {
        server.close();
        cut();
    }
}
