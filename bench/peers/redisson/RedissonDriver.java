import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Locale;
import java.util.concurrent.CyclicBarrier;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Redisson as a peer of bench_distributed-locks and bench_fleet; ../README.md tells how the two talk. */
final class RedissonDriver {
  private final Runnable[] steps; // A thread's each; of one name or of as many.

  private RedissonDriver(RedissonClient redisson, String kind, int threads, boolean ownNames) {
    steps = new Runnable[threads];
    for (int i = 0; i < threads; ++i) steps[i] = step(redisson, kind, ownNames ? "java" + i : "java");
  }

  /** An acquire and a release of a lock; of a semaphore without permits, an acquire in vain. */
  private static Runnable step(RedissonClient redisson, String kind, String name) {
    if (kind.equals("semaphore")) {
      RSemaphore semaphore = redisson.getSemaphore(name);
      return () -> {
        if (semaphore.tryAcquire()) throw new IllegalStateException("a permit without one");
      };
    }
    RLock lock = Locks.of(redisson, kind, name);
    return () -> {
      lock.lock();
      lock.unlock();
    };
  }

  /** Steps of all threads in a second, from the first one's start to the last one's end. */
  private double run(long millis) throws Exception {
    int threads = steps.length;
    long[] begins = new long[threads];
    long[] ends = new long[threads];
    long[] pairs = new long[threads];
    CyclicBarrier start = new CyclicBarrier(threads);
    Thread[] workers = new Thread[threads];
    for (int i = 0; i < threads; ++i) {
      int thread = i;
      workers[i] = new Thread(() -> {
        try {
          start.await();
        } catch (Exception e) {
          throw new IllegalStateException(e);
        }
        long begin = System.nanoTime();
        long done = 0;
        do {
          steps[thread].run();
          ++done;
        } while (System.nanoTime() - begin < millis * 1_000_000);
        begins[thread] = begin;
        ends[thread] = System.nanoTime();
        pairs[thread] = done;
      });
      workers[i].start();
    }
    long total = 0;
    long begin = 0;
    long end = 0;
    for (int i = 0; i < threads; ++i) {
      workers[i].join();
      if (pairs[i] == 0) throw new IllegalStateException("a thread failed");
      if (i == 0 || begins[i] - begin < 0) begin = begins[i];
      if (i == 0 || ends[i] - end > 0) end = ends[i];
      total += pairs[i];
    }
    return total * 1e9 / (end - begin);
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("--check")) { // Whether all that it takes is there.
      Locks.class.getDeclaredMethods();
      System.out.println("ready");
      return;
    }
    if (args[0].equals("maps")) {
      LocalCachedMaps.run(Integer.parseInt(args[1]), args[2]);
      return;
    }
    String url = "";
    String kind = "lock";
    int threads = 1;
    int warmUpMillis = 1000;
    boolean ownNames = true;
    for (int i = 0; i < args.length; i += 2) {
      if (i + 1 == args.length) throw new IllegalArgumentException(args[i] + " needs a value");
      String value = args[i + 1];
      switch (args[i]) {
        case "--url" -> url = value;
        case "--kind" -> kind = value;
        case "--threads" -> threads = Integer.parseInt(value);
        case "--names" -> ownNames = value.equals("own");
        case "--warm-up-ms" -> warmUpMillis = Integer.parseInt(value);
        default -> throw new IllegalArgumentException("unknown option " + args[i]);
      }
    }
    RedissonClient redisson = Locks.connect(url);
    RedissonDriver driver = new RedissonDriver(redisson, kind, threads, ownNames);
    // In short runs, so that what the compiler makes of a run is what later runs use.
    long start = System.nanoTime();
    while (System.nanoTime() - start < warmUpMillis * 1_000_000L) driver.run(50);
    System.out.println("ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] request = line.split(" ");
      if (!request[0].equals("run")) throw new IllegalArgumentException("bad request: " + line);
      System.out.println(String.format(Locale.ROOT, "%.0f", driver.run(Integer.parseInt(request[1]))));
    }
    redisson.shutdown();
  }
}
