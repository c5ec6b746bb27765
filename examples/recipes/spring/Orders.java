/** What the shop does with orders, each method in a transaction. Spring Boot needs no interface for that; plain Spring may. */
public interface Orders {
    long take(String customer, int cents);

    long invoice(long order, long task, String lease);
}
