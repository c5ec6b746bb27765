import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.Executors;

/** The shop of the recipes on the JDK's own HTTP server and JDBC. Postgres reads and writes the JSON, so no library for it is needed. */
public class App {
    private static final String URL = System.getenv("JDBC_DATABASE_URL");

    public static void main(String[] args) throws IOException {
        String port = System.getenv().getOrDefault("PORT", "8080");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", App::serve);
        server.start();
    }

    /** For people: the order and its task, both or neither. */
    private static String takeOrder(Connection connection, String body) throws SQLException {
        String insert = "insert into orders (customer, cents) select customer, cents"
            + " from jsonb_to_record(?::jsonb) as o (customer text, cents integer) returning id";
        try (PreparedStatement order = connection.prepareStatement(insert);
             PreparedStatement enqueue = connection.prepareStatement("select sched.enqueue('invoice', jsonb_build_object('order', ?))")) {
            order.setString(1, body);
            ResultSet created = order.executeQuery();
            created.next();
            long id = created.getLong("id");
            enqueue.setLong(1, id);
            enqueue.execute();
            return "{\"order\": " + id + "}";
        }
    }

    /** For the sidecar: the invoice and the end of the task, both or neither. */
    private static String writeInvoice(Connection connection, String body, HttpExchange request) throws SQLException, Gone {
        String insert = "insert into invoices (order_id, cents) select id, cents"
            + " from orders where id = (?::jsonb->>'order')::bigint returning number";
        try (PreparedStatement write = connection.prepareStatement(insert);
             PreparedStatement complete = connection.prepareStatement("select sched.complete(?, ?, ?::jsonb)")) {
            write.setString(1, body);
            ResultSet invoice = write.executeQuery();
            if (!invoice.next()) {
                throw new Gone("no order for " + body);
            }
            String output = "{\"invoice\": " + invoice.getLong("number") + "}";
            complete.setLong(1, Long.parseLong(request.getRequestHeaders().getFirst("Sched-Task-Id")));
            complete.setString(2, request.getRequestHeaders().getFirst("Sched-Lease"));
            complete.setString(3, output);
            complete.execute();
            return output;
        }
    }

    private static void serve(HttpExchange request) throws IOException {
        int status;
        String answer;
        String body = new String(request.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        // A real app has a pool. Closed before its commit, a connection rolls back.
        try (Connection connection = DriverManager.getConnection(URL)) {
            connection.setAutoCommit(false);
            switch (request.getRequestMethod() + " " + request.getRequestURI().getPath()) {
                case "POST /orders":
                    answer = takeOrder(connection, body);
                    status = 201;
                    break;
                case "POST /invoice":
                    answer = writeInvoice(connection, body, request);
                    status = 200;
                    break;
                default:
                    answer = "this app has no such kind";
                    status = 404;
            }
            connection.commit();
        } catch (Gone e) {
            status = 410; // trying again is pointless
            answer = e.getMessage();
        } catch (SQLException e) {
            // SC409: another attempt has the task, and ours left nothing behind. Anything else: try again.
            status = "SC409".equals(e.getSQLState()) ? 409 : 500;
            answer = e.getMessage();
        } catch (RuntimeException e) {
            status = 500;
            answer = e.toString();
        }
        byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
        request.getResponseHeaders().set("Content-Type", status < 300 ? "application/json" : "text/plain; charset=utf-8");
        request.sendResponseHeaders(status, bytes.length);
        request.getResponseBody().write(bytes);
        request.close();
    }

    private static class Gone extends Exception {
        Gone(String message) {
            super(message);
        }
    }
}
