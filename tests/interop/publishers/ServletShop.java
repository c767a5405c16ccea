// SPDX-License-Identifier: Apache-2.0

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/**
 * A shop of servlets in Tomcat, for OpenTelemetry's Java agent, with test-otel-java.py as its customer. Prints `listens PORT`,
 * and at the end of standard input what each route has used: `used ROUTE MICROSECONDS`.
 */
public final class ServletShop {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final Map<String, Long> USED = new ConcurrentHashMap<>();
    static volatile double result;

    private static final class Route extends HttpServlet {
        private static final long serialVersionUID = 1;
        private final String name;
        private final int milliseconds;

        Route(String name, int milliseconds) {
            this.name = name;
            this.milliseconds = milliseconds;
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            long begin = THREADS.getCurrentThreadCpuTime(), passed = 0;
            while (passed < milliseconds * 1000000L) {
                for (int i = 0; i < 10000; i++)
                    result += Math.sqrt(i);
                passed = THREADS.getCurrentThreadCpuTime() - begin;
            }
            USED.merge(name, passed / 1000, Long::sum);
            response.getWriter().write(request.getPathInfo() == null ? "none" : request.getPathInfo().substring(1));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[0]);
        tomcat.setPort(0);
        Context context = tomcat.addContext("", new File(arguments[0]).getAbsolutePath());
        Tomcat.addServlet(context, "cart", new Route("/cart/*", 30));
        Tomcat.addServlet(context, "search", new Route("/search", 10));
        context.addServletMappingDecoded("/cart/*", "cart");
        context.addServletMappingDecoded("/search", "search");
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.start();
        System.out.println("listens " + tomcat.getConnector().getLocalPort());
        while (System.in.read() >= 0)
            continue;
        USED.forEach((route, microseconds) -> System.out.println("used " + route + " " + microseconds));
        System.exit(0);
    }
}
