// SPDX-License-Identifier: Apache-2.0
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.Fields;

/*
 * A server of Jetty that asks itself for pages (VictimPages.java).
 *
 * usage: java -cp JETTY-JARS:. VictimJetty SECONDS
 */
public class VictimJetty extends Handler.Abstract {
    static String listed(int from) {
        StringBuilder page = new StringBuilder("<table>");
        for (int i = from; i < from + 400; i++)
            page.append(String.format(Locale.ROOT, "<tr><td>item %d</td><td>%.2f</td></tr>%n", i, i * 1.19));
        return page.append("</table>").toString();
    }

    static String answer(Request request) throws Exception {
        String path = Request.getPathInContext(request);
        if (path.equals("/items")) {
            Fields fields = Request.extractQueryParameters(request);
            return listed(Integer.parseInt(fields.getValue("from")));
        }
        if (path.equals("/orders"))
            return Content.Source.asString(request, StandardCharsets.UTF_8).toUpperCase(Locale.ROOT);
        return "item " + Integer.parseInt(path.substring("/items/".length()));
    }

    @Override
    public boolean handle(Request request, Response response, Callback callback) throws Exception {
        response.getHeaders().put(HttpHeader.CONTENT_TYPE, "text/html; charset=utf-8");
        Content.Sink.write(response, true, answer(request), callback);
        return true;
    }

    public static void main(String[] words) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new VictimJetty());
        server.start();
        VictimPages.askUntil(connector.getLocalPort(), Long.parseLong(words[0]));
        server.stop();
    }
}
