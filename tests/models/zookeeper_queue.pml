// The queue of one lock in ZooKeeper: nodes with ascending positions, of which each waiter watches one.
//
// Owner(me)  an acquire to write or to read and its release: it creates its node, reads who is there, watches its
//            predecessor, reads again once told. The first owner, a writer, may read besides, at its own position, and
//            release in either order (a downgrade). One who waits may give up; any client may end, and all its nodes
//            with it. ZooKeeperTry, PlaceOf(), ZooKeeperLockEngine::Listen(), ZooKeeperSession::WatchGone().
//
// Two writers, of which one may read besides, a reader, and one more of either kind.
//
// Invariants. A writer inside is alone, but for its own reading; readers are inside together (assertion). Nobody waits
// for what nobody holds (no invalid end state).
//
// Abstracted. Servers that lag: a client reads from one that has applied all up to some moment, its own create among
// it, and tells of deletions later; that is a later step here. A position counts up for ever: the code compares them
// with wrap-around.
//
// Broken: NESTED_BEHIND (a writer's own read takes a new position), NO_SECOND_LOOK (a predecessor that is gone when it
// is to be watched gives no hint), SKIP_READERS (a writer waits for writers alone), CREATE_AGAIN (a create whose reply
// was lost is sent anew), HINT_ENTERS (who is told enters without reading again), KEEP_WATCH (who finds another
// predecessor still watches the old one).

#define OWNERS 4
#define NOBODY OWNERS
#define LOST_REPLIES 1
#define CRASHES 1

// The nodes. An owner's w and r have one position; an orphan is a w of an owner that does not know of it.
byte next = 1;
byte position[OWNERS];
byte orphan_position[OWNERS];
bool w[OWNERS];
bool r[OWNERS];
bool orphan[OWNERS];
#ifdef NESTED_BEHIND
byte nested_position;
#endif

// Whom each watches, and whether it is the reading node; and who has been told.
byte watched[OWNERS] = NOBODY;
bool watched_r[OWNERS];
bool hinted[OWNERS];

// Ghosts: who believes that it holds.
bool writes[OWNERS];
bool reads[OWNERS];
byte lost_replies;
byte crashes;

#ifdef NESTED_BEHIND
#define R_POSITION(o) (o == 0 && nested_position -> nested_position : position[o])
#else
#define R_POSITION(o) position[o]
#endif

inline Tell(o, of_r) {
  i = 0;
  do
  :: i == OWNERS -> break
  :: else ->
     if
     :: watched[i] == o && watched_r[i] == of_r -> watched[i] = NOBODY; hinted[i] = true
     :: else
     fi;
     i++
  od;
  i = 0
}

inline DeleteW(o) { if :: w[o] -> w[o] = false; Tell(o, false) :: else fi }
inline DeleteR(o) { if :: r[o] -> r[o] = false; Tell(o, true) :: else fi }

// The nearest node before ours that excludes us: `before`, `before_r`.
inline Look() {
  atomic {
    i = 0;
    nearest = 0;
    before = NOBODY;
    before_r = false;
    do
    :: i == OWNERS -> break
    :: else ->
       if
       :: i != me && w[i] && position[i] < position[me] && position[i] >= nearest ->
          nearest = position[i]; before = i; before_r = false
       :: else
       fi;
       if
       :: orphan[i] && orphan_position[i] < position[me] && orphan_position[i] >= nearest ->
          nearest = orphan_position[i]; before = i; before_r = false
       :: else
       fi;
#ifndef SKIP_READERS
       if
       :: is_writer && i != me && r[i] && R_POSITION(i) < position[me] && R_POSITION(i) >= nearest ->
          nearest = R_POSITION(i); before = i; before_r = true
       :: else
       fi;
#endif
       i++
    od;
    i = 0;
    nearest = 0
  }
}

inline Watch() {
  atomic {
#ifdef KEEP_WATCH
    if
    :: !ever -> watched[me] = before; watched_r[me] = before_r
    :: else
    fi;
    ever = true;
#else
    watched[me] = before;
    watched_r[me] = before_r;
#endif
    if
    :: (before_r && r[before]) || (!before_r && (w[before] || orphan[before]))
    :: else ->
#ifndef NO_SECOND_LOOK
       hinted[me] = true;
#endif
       watched[me] = NOBODY
    fi;
    before = NOBODY;
    before_r = false
  }
}

inline Enter() {
  if
  :: is_writer ->
     assert(!writes[0] && !writes[1] && !writes[2] && !writes[3]);
     assert(!reads[0] && !reads[1] && !reads[2] && !reads[3]);
     writes[me] = true
  :: else ->
     assert(!writes[0] && !writes[1] && !writes[2] && !writes[3]);
     reads[me] = true
  fi
}

inline Create() {
  atomic {
    position[me] = next;
    next++;
    if
    :: is_writer -> w[me] = true
    :: else -> r[me] = true
    fi
  }
}

proctype Owner(byte me; bool is_writer) {
  byte i, nearest;
  byte before = NOBODY;
  bool before_r;
#ifdef KEEP_WATCH
  bool ever;
#endif

  Create();
  if
  :: true
  :: atomic { lost_replies < LOST_REPLIES -> lost_replies++ };
     // It was created; the client reads who is there, and finds its own id.
#ifdef CREATE_AGAIN
     if
     :: atomic { is_writer -> orphan[me] = true; orphan_position[me] = position[me]; w[me] = false };
        Create()
     :: else
     fi
#endif
  fi;

  do
  :: true ->
     Look();
     if
     :: atomic { before == NOBODY -> Enter(); break }
     :: else -> Watch()
     fi;
     if
     :: true  // Stays until it is told.
     :: atomic { watched[me] = NOBODY; DeleteW(me); DeleteR(me) };  // Gives up.
        goto done
     fi;
     atomic { hinted[me] -> hinted[me] = false };
#ifdef HINT_ENTERS
     Enter();
     break
#endif
  od;

  if
  :: atomic { me == 0 ->
#ifdef NESTED_BEHIND
       nested_position = next;
       next++;
#endif
       r[me] = true };
     atomic { assert(!reads[1] && !reads[2] && !reads[3]); reads[me] = true };
     if
     :: writes[me] = false; atomic { DeleteW(me) }; reads[me] = false; atomic { DeleteR(me) }
     :: reads[me] = false; atomic { DeleteR(me) }; writes[me] = false; atomic { DeleteW(me) }
     fi
  :: atomic { crashes < CRASHES ->
       crashes++;
       // Its leases are over before its session is.
       writes[me] = false;
       reads[me] = false };
     atomic { DeleteW(me); DeleteR(me) }
  :: writes[me] = false;
     reads[me] = false;
     atomic { DeleteW(me); DeleteR(me) }
  fi;
done:
  skip
}

init {
  atomic {
    run Owner(0, true);
    run Owner(1, true);
    run Owner(2, false);
#ifdef READERS
    run Owner(3, false)
#else
    run Owner(3, true)
#endif
  }
}
