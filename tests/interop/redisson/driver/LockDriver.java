import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Does with Redisson's locks what it is told, for a test that does the same with Stockade's: LockDriver URL. It says
 * `ready`, and then answers each line with a line, until its input ends. An owner is a thread, made where it is named
 * first; locks belong to threads.
 *
 * <pre>
 * do OWNER COMMAND      the command's answer, once that owner has carried it out
 * begin OWNER COMMAND   begun
 * waits OWNER           whether its thread waits for a message (or for a lease to end): true, false
 * ended OWNER           whether what was begun has ended: true, false
 * end OWNER             the answer of what was begun, once it has ended
 * </pre>
 *
 * Commands, where a KIND is lock, fair, read, write or fenced, and LEASE_MS is -1 for Redisson's watchdog:
 *
 * <pre>
 * lock NAME KIND LEASE_MS              ok; fenced: the token
 * trylock NAME KIND WAIT_MS LEASE_MS   true, false; fenced: the token, null
 * unlock NAME KIND                     ok
 * holdcount, islocked, heldbyme, ttl, force   ... NAME KIND: a number or true, false
 * </pre>
 *
 * What Redisson throws is the answer, too: `error: ` and its text.
 */
final class LockDriver {
  private final RedissonClient redisson;
  private final Map<String, ExecutorService> owners = new HashMap<>();
  private final Map<String, Thread> threads = new ConcurrentHashMap<>();
  private final Map<String, Future<String>> begun = new HashMap<>();

  private LockDriver(String url) {
    redisson = Locks.connect(url);
  }

  private String answer(String line) throws Exception {
    String[] words = line.split(" ");
    String owner = words[1];
    switch (words[0]) {
      case "do":
        return begin(owner, words).get();
      case "begin":
        begun.put(owner, begin(owner, words));
        return "begun";
      case "waits":
        // Redisson's waiters do it on a semaphore, and for replies on other things.
        return String.valueOf(Arrays.stream(stackOf(owner))
            .anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName())));
      case "ended":
        return String.valueOf(begun.get(owner).isDone());
      case "end":
        return begun.remove(owner).get();
      default:
        throw new IllegalArgumentException("bad request: " + line);
    }
  }

  private StackTraceElement[] stackOf(String owner) {
    Thread thread = threads.get(owner);
    return thread == null ? new StackTraceElement[0] : thread.getStackTrace();
  }

  private Future<String> begin(String owner, String[] words) {
    return owners.computeIfAbsent(owner, name -> Executors.newSingleThreadExecutor()).submit(() -> {
      threads.put(owner, Thread.currentThread());
      try {
        return run(words);
      } catch (Exception e) {
        return ("error: " + e).replace('\n', ' ');
      }
    });
  }

  private String run(String[] words) throws InterruptedException {
    RLock lock = Locks.of(redisson, words[4], words[3]);
    switch (words[2]) {
      case "lock": {
        long lease = Long.parseLong(words[5]);
        // lockAndGetToken() of 4.7.0 takes a lease, and then gives the watchdog's.
        lock.lock(lease, TimeUnit.MILLISECONDS);
        return lock instanceof RFencedLock fenced ? String.valueOf(fenced.getToken()) : "ok";
      }
      case "trylock": {
        long wait = Long.parseLong(words[5]);
        long lease = Long.parseLong(words[6]);
        if (lock instanceof RFencedLock fenced) {
          return String.valueOf(fenced.tryLockAndGetToken(wait, lease, TimeUnit.MILLISECONDS));
        }
        return String.valueOf(lock.tryLock(wait, lease, TimeUnit.MILLISECONDS));
      }
      case "unlock":
        lock.unlock();
        return "ok";
      case "holdcount":
        return String.valueOf(lock.getHoldCount());
      case "islocked":
        return String.valueOf(lock.isLocked());
      case "heldbyme":
        return String.valueOf(lock.isHeldByCurrentThread());
      case "ttl":
        return String.valueOf(lock.remainTimeToLive());
      case "force":
        return String.valueOf(lock.forceUnlock());
      default:
        throw new IllegalArgumentException("no command: " + words[2]);
    }
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("--check")) { // Whether all that it takes is there.
      Locks.class.getDeclaredMethods();
      System.out.println("ready");
      return;
    }
    LockDriver driver = new LockDriver(args[0]);
    System.out.println("ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      System.out.println(driver.answer(line));
    }
    System.exit(0); // Whatever an owner still waits for.
  }
}
