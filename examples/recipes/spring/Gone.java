/** What the task is about is no more: trying again is pointless. */
public class Gone extends RuntimeException {
    public Gone(String message) {
        super(message);
    }
}
