// A server under observation, of Java's own library: /work/MS computes, /sleep/MS waits, /quit ends it.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Server {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 16);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            String[] parts = exchange.getRequestURI().getPath().split("/");
            long ms = parts.length > 2 ? Long.parseLong(parts[2]) : 0;
            if (parts[1].equals("work")) {
                long end = System.nanoTime() + ms * 1_000_000;
                while (System.nanoTime() < end) {}
            } else if (parts[1].equals("sleep")) {
                try {
                    Thread.sleep(ms);
                } catch (InterruptedException error) {
                    throw new RuntimeException(error);
                }
            }
            byte[] body = "done".getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
            if (parts[1].equals("quit")) {
                server.stop(0);
                System.exit(0);
            }
        });
        server.start();
    }
}
