import java.sql.SQLException;
import java.util.Collections;
import java.util.Map;
import org.springframework.dao.DataAccessException;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

@RestController
public class ShopController {
    private final Orders orders;

    public ShopController(Orders orders) {
        this.orders = orders;
    }

    @PostMapping("/orders")
    @ResponseStatus(HttpStatus.CREATED)
    public Map<String, Long> takeOrder(@RequestBody Order order) {
        return Collections.singletonMap("order", orders.take(order.customer, order.cents));
    }

    @PostMapping("/invoice")
    public Map<String, Long> invoice(@RequestBody Task task,
            @RequestHeader("Sched-Task-Id") long id, @RequestHeader("Sched-Lease") String lease) {
        return Collections.singletonMap("invoice", orders.invoice(task.order, id, lease));
    }

    /** SC409: another attempt has the task, and ours left nothing behind. Anything else: try again. */
    @ExceptionHandler
    public ResponseEntity<String> failed(DataAccessException error) {
        Throwable cause = error.getRootCause();
        boolean lost = cause instanceof SQLException && "SC409".equals(((SQLException) cause).getSQLState());
        return ResponseEntity.status(lost ? HttpStatus.CONFLICT : HttpStatus.INTERNAL_SERVER_ERROR).body(error.getMessage());
    }

    @ExceptionHandler
    public ResponseEntity<String> gone(Gone error) {
        return ResponseEntity.status(HttpStatus.GONE).body(error.getMessage());
    }

    public static class Order {
        public String customer;
        public int cents;
    }

    public static class Task {
        public long order;
    }
}
