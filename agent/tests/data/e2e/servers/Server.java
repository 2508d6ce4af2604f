// A server under observation, of Java's own library: /work/MS computes, /sleep/MS waits, /quit ends it, and /predict/NUMBER computes
// for 20 ms and, if it is a tenth one, sleeps for FAULT_MS.

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
                compute(ms);
            } else if (parts[1].equals("sleep")) {
                sleep(ms);
            } else if (parts[1].equals("predict")) {
                compute(20);
                if (ms % 10 == 0) {
                    sleep(Long.parseLong(System.getenv("FAULT_MS")));
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

    static void compute(long ms) {
        long end = System.nanoTime() + ms * 1_000_000;
        while (System.nanoTime() < end) {}
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }
}
