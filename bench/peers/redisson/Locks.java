import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's locks by the names that a driver's kinds have. */
final class Locks {
  private Locks() {}

  /** Of redis://HOST:PORT, or redis+cluster://HOST:PORT,HOST:PORT,... */
  static RedissonClient connect(String url) {
    Config config = new Config();
    String nodes = url.replace("redis+cluster://", "");
    if (nodes.equals(url)) {
      config.useSingleServer().setAddress(url);
    } else {
      for (String node : nodes.split(",")) config.useClusterServers().addNodeAddress("redis://" + node);
    }
    return Redisson.create(config);
  }

  static RLock of(RedissonClient redisson, String kind, String name) {
    return switch (kind) {
      case "lock" -> redisson.getLock(name);
      case "fair" -> redisson.getFairLock(name);
      case "read" -> redisson.getReadWriteLock(name).readLock();
      case "write" -> redisson.getReadWriteLock(name).writeLock();
      case "fenced" -> redisson.getFencedLock(name);
      default -> throw new IllegalArgumentException("no kind of lock: " + kind);
    };
  }
}
