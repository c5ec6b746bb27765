import java.net.InetSocketAddress;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.web.context.support.XmlWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;

/** Serves the shop without Spring Boot. */
public class Main {
    public static void main(String[] args) throws Exception {
        XmlWebApplicationContext context = new XmlWebApplicationContext();
        context.setConfigLocation("classpath:app.xml");
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))));
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
