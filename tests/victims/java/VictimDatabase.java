// SPDX-License-Identifier: Apache-2.0
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/*
 * A program that has a database in its memory, H2: rows that are merged, a join with sums, and searches by an
 * index.
 *
 * usage: java -cp H2.jar:. VictimDatabase SECONDS
 *
 * Prints `ready` once each statement has run; SECONDS of the process' CPU time later it ends.
 */
public class VictimDatabase {
    static final int CUSTOMERS = 2000, ORDERS = 10000;

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    static void write(Connection connection, int from) throws SQLException {
        try (PreparedStatement merge = connection.prepareStatement("merge into customer values(?, ?, ?)")) {
            for (int i = 0; i < 200; i++) {
                merge.setInt(1, (from + i) % CUSTOMERS);
                merge.setString(2, "name " + (from + i));
                merge.setString(3, "city " + i % 17);
                merge.execute();
            }
        }
        try (PreparedStatement merge = connection.prepareStatement("merge into orders values(?, ?, ?, ?)")) {
            for (int i = 0; i < 500; i++) {
                merge.setInt(1, (from * 5 + i) % ORDERS);
                merge.setInt(2, (from + i * 7) % CUSTOMERS);
                merge.setBigDecimal(3, BigDecimal.valueOf(i * 31 % 9999, 2));
                merge.setString(4, "note " + i);
                merge.execute();
            }
        }
    }

    static void join(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
             ResultSet rows = statement.executeQuery("select c.city, count(*), sum(o.total) from customer c"
                     + " join orders o on o.customer = c.id where o.total > 5 group by c.city order by 3 desc")) {
            while (rows.next())
                rows.getBigDecimal(3);
        }
    }

    static void search(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement(
                "select note from orders where customer = ? and note like ?")) {
            for (int i = 0; i < 200; i++) {
                select.setInt(1, i * 3);
                select.setString(2, "%note 1%");
                try (ResultSet rows = select.executeQuery()) {
                    while (rows.next())
                        rows.getString(1);
                }
            }
        }
    }

    public static void main(String[] words) throws SQLException {
        try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:test");
             Statement statement = connection.createStatement()) {
            statement.execute("create table customer(id int primary key, name varchar(64), city varchar(32))");
            statement.execute("create table orders(id int primary key, customer int, total decimal(10, 2),"
                    + " note varchar(64))");
            statement.execute("create index of_customer on orders(customer)");
            long end = cpuNs() + Long.parseLong(words[0]) * 1_000_000_000L;
            for (int from = 0; cpuNs() < end; from += 200) {
                write(connection, from);
                join(connection);
                search(connection);
                if (from == 0)
                    System.out.println("ready");
            }
        }
    }
}
