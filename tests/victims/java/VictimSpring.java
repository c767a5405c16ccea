// SPDX-License-Identifier: Apache-2.0
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/*
 * A service of Spring Boot with JSON, in its Tomcat, that asks itself for pages (VictimPages.java).
 *
 * usage: java -cp SPRING-JARS:. VictimSpring SECONDS
 */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import(VictimSpring.Shop.class)
public class VictimSpring {
    public record Item(int id, String name, double price, Map<String, String> labels) {
    }

    public record Order(String name, int count, List<Integer> items) {
    }

    @RestController
    public static class Shop {
        static Item of(int id) {
            return new Item(id, "item " + id, id * 1.19, Map.of("colour", "c" + id % 7, "size", "s" + id % 5));
        }

        @GetMapping("/items")
        public List<Item> listed(@RequestParam("from") int from) {
            List<Item> items = new ArrayList<>();
            for (int id = from; id < from + 40; id++)
                items.add(of(id));
            return items;
        }

        @GetMapping("/items/{id}")
        public Item one(@PathVariable("id") int id) {
            return of(id);
        }

        @PostMapping("/orders")
        public Order ordered(@RequestBody Order order) {
            return new Order(order.name().trim(), order.count() + 1, order.items());
        }
    }

    public static void main(String[] words) throws Exception {
        ConfigurableApplicationContext context = SpringApplication.run(VictimSpring.class, "--server.port=0",
                "--server.address=127.0.0.1", "--spring.main.banner-mode=off", "--logging.level.root=warn");
        VictimPages.askUntil(((ServletWebServerApplicationContext) context).getWebServer().getPort(),
                Long.parseLong(words[0]));
        context.close();
    }
}
