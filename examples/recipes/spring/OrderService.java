import java.util.List;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@Service
public class OrderService implements Orders {
    private final JdbcTemplate jdbc;

    public OrderService(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    /** For people: the order and its task, both or neither. */
    @Override
    @Transactional
    public long take(String customer, int cents) {
        long order = jdbc.queryForObject(
            "insert into orders (customer, cents) values (?, ?) returning id", Long.class, customer, cents);
        jdbc.queryForObject("select sched.enqueue('invoice', jsonb_build_object('order', ?))", Long.class, order);
        return order;
    }

    /** For the sidecar: the invoice and the end of the task, both or neither. */
    @Override
    @Transactional
    public long invoice(long order, long task, String lease) {
        List<Long> number = jdbc.queryForList(
            "insert into invoices (order_id, cents) select id, cents from orders where id = ? returning number", Long.class, order);
        if (number.isEmpty()) {
            throw new Gone("no order " + order);
        }
        jdbc.queryForList("select sched.complete(?, ?, jsonb_build_object('invoice', ?))", task, lease, number.get(0));
        return number.get(0);
    }
}
