# The one place that lists the test programs and suites that sanitizers do not run. CONTRIBUTING.md gives the reason of each group.
set(not_our_code  # Test fixtures, other people's programs, documents.
  bench_peers_test dashboards_test docs_test flash_sale_page_test mariadb_fixture_test redis_fixture_test
  redisson_interop_test shop_test zookeeper_ensemble_fixture_test zookeeper_fixture_test)
set(too_slow_for_servers  # Sentinels, cluster nodes and ensembles elect a new leader while a sanitizer delays the client.
  cache_redis_topology_test lock_service_failover_test lock_service_partition_test locks_redis_topology_test
  redis_topology_test zookeeper_fault_test)
set(limits  # A limit of the address space leaves none for a sanitizer, which also takes pthread_create() for itself.
  limits_test)
set(one_thread  # There is nothing to race with.
  connect_lock_service_test connect_without_engines_test flash_sale_api_test flash_sale_parts_test flash_sale_sales_test
  fleet_sale_test fleet_test fuzz fuzz_mutator_test grab_order_test inventory_crash_point_test locks_annotations_test
  mysql_test mysql_tls_test redis_test redlock_votes_test ticket_office_test)
set(one_writer  # Faults of a disk below one writing thread. sqlite_ledger_test runs the same threads.
  sqlite_ledger_disk_test)
set(own_new  # They replace operator new, which ThreadSanitizer's library defines as well.
  cache_allocation_test cache_no_memory_test inventory_allocation_test locks_allocation_test)
set(seen_elsewhere  # Other tests run the same code: see CONTRIBUTING.md.
  flash_sale_sales_test fleet_sale_test fleet_test inventory_crash_point_test inventory_soak_test)

set(STOCKADE_NOT_UNDER_address ${not_our_code} ${too_slow_for_servers} ${limits} ${seen_elsewhere})
set(STOCKADE_NOT_UNDER_thread ${not_our_code} ${too_slow_for_servers} ${limits} ${one_thread} ${one_writer} ${own_new})

# Of programs that sanitizers run: suites and cases, by patterns of GoogleTest.
set(numbers  # Thousands of hits are counted. XFetchTest runs the same code.
  Settings/XFetchChanceTest.*)
set(broken_variants  # A switch leaves out a rule, and the test notices that the stock is wrong then.
  FleetFaultySaleTest.*_IsNoticed FleetPlanRulesTest.* FleetRowRulesTest.* FleetScriptTest.* Rules/FleetConstraintTest.*
  Rules/FleetDefectsTest.*)
set(elections  # Sentinels choose a new master while a sanitizer delays the members.
  CacheSentinelPartitionTest.*)
set(aborts  # Each case is a process of its own that aborts.
  Settings/LockContractDeathTest.*)
set(STOCKADE_TESTS_NOT_UNDER_address ${numbers} ${broken_variants} ${aborts} ${elections})
set(STOCKADE_TESTS_NOT_UNDER_thread ${numbers} ${broken_variants} ${aborts} ${elections})
set(STOCKADE_EXCLUDED_TESTS "")
foreach(sanitizer IN ITEMS address thread)
  if(STOCKADE_SANITIZE MATCHES ${sanitizer})
    list(APPEND STOCKADE_EXCLUDED_TESTS ${STOCKADE_TESTS_NOT_UNDER_${sanitizer}})
  endif()
endforeach()
list(JOIN STOCKADE_EXCLUDED_TESTS ":" STOCKADE_EXCLUDED_TESTS)

# Whether this build excludes the test program, or the folder, of this name.
function(stockade_excluded name result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(sanitizer IN ITEMS address thread)
    if(STOCKADE_SANITIZE MATCHES ${sanitizer} AND name IN_LIST STOCKADE_NOT_UNDER_${sanitizer})
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
