import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.api.listener.LocalCacheInvalidateListener;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.client.codec.StringCodec;

/** RLocalCachedMap as a peer of bench_fleet; ../README.md tells how the two talk. */
final class LocalCachedMaps {
  private LocalCachedMaps() {}

  /** Each map has a client of its own, as if it were in a process of its own. */
  private static RLocalCachedMap<String, String> open(List<RedissonClient> clients, String url) {
    clients.add(Locks.connect(url));
    return clients.get(clients.size() - 1).getLocalCachedMap(
        LocalCachedMapOptions.<String, String>name("map")
            .codec(StringCodec.INSTANCE)
            .syncStrategy(LocalCachedMapOptions.SyncStrategy.INVALIDATE));
  }

  /** For each line "KEY": all maps read it, another one removes it; nanoseconds until the last map has dropped it. */
  static void run(int count, String url) throws Exception {
    List<RedissonClient> clients = new ArrayList<>();
    LinkedBlockingQueue<Long> dropped = new LinkedBlockingQueue<>();
    List<RLocalCachedMap<String, String>> maps = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      RLocalCachedMap<String, String> map = open(clients, url);
      // It is called when the entry is gone.
      map.addListener((LocalCacheInvalidateListener<String, String>) (key, value) -> dropped.add(System.nanoTime()));
      maps.add(map);
    }
    RLocalCachedMap<String, String> writer = open(clients, url);
    // It sends no invalidation, which could reach a map after it has read the value.
    RMap<String, String> plain = clients.get(0).getMap("map", StringCodec.INSTANCE);
    System.out.println("ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String key = requests.readLine(); key != null; key = requests.readLine()) {
      plain.fastPut(key, "value");
      for (RLocalCachedMap<String, String> map : maps) {
        map.get(key);
        if (map.getCachedMap().get(key) == null) throw new IllegalStateException("not in memory: " + key);
      }
      dropped.clear(); // Redisson has called the listeners for the gets, too.
      long begun = System.nanoTime();
      writer.fastRemove(key);
      long last = begun;
      for (int i = 0; i < count; ++i) last = Math.max(last, dropped.take());
      System.out.println(last - begun);
    }
    for (RedissonClient client : clients) client.shutdown();
  }
}
