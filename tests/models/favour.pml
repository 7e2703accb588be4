// A lock that favours one thread: its writes by publication, how others call it back, and how the lock comes to favour
// it, again after a wait that was given up, and no more.
//
// Thread(me, mode, timed, rounds)  enters and leaves, for writing or for reading. With `timed` it gives up at any
//                                  moment, also as with try_lock (kNoWait), which does not wait for the Owner.
//                                  queue.pml and enter_leave.pml name the functions of the code.
// OWNER is the favoured thread, or to be. It writes by TryLockFast(): with IsFavoured(), PublishInline(), IsFavoured()
// and UnpublishInline(); else with TryEnterExclusive(), and perhaps AskFavour() with Favour(); else with Enter(). It
// leaves by Unlock(), or Downgrade() with BecomeReader() and Unfavour(). Or it reads: after a look at kBias that is out
// of date it publishes itself for a moment, in TryLockSharedFast(), and then does as others do.
//
// Invariants.
//  - Writers are alone inside, whichever way they are in; nobody passes a head that has claimed (assertions).
//  - What lock_word.h and access_gate.h state of the bits and the queue (queue.pml, Unlock): the favoured word knows of
//    nobody else, neither in nor waiting; while somebody is called back, kClaim is set and the head does not sleep.
//    Who leaves by the word, or is favoured again, finds it as it takes it to be.
//  - A word that is looked at under the mutex and favours nobody does not come to favour somebody meanwhile.
//  - Nobody waits for ever (no invalid end state).
//
// Abstracted: as in hand_off.pml, and published reads are a count, but for the moment in which the Owner's entry tells
// of one that is not to be. OnlyPublishedMayBeIn() saves a try_lock that cannot succeed: one that does not come is no
// step at all. Re-entry, samples and the overflow touch nothing shared; with the entry taken the Owner is as others
// are. The counting of writes is a choice.
//
// Memory: the Owner's stores to its entry, as entries.pml has them. Its read-modify-writes of the word wait for the
// stores before them where they release, and the mutex is let go by a release, on any machine. With -DFALLBACK this is
// the build for ThreadSanitizer: where the kernel refuses membarrier no lock favours anybody.
//
// -DFIFO: the fair lock.
// Broken:
//   NO_FENCE            called back without Heavy()
//   NO_MARK_FENCE       none after marking
//   NO_SECOND_LOOK      the Owner is in once it has published itself
//   WORD_FIRST          the word changes before the Owner has published itself
//   ANY_WORD            Favour() from any word with kWriter
//   FAVOUR_UNLOCKED     Favour() without the mutex
//   UNFAVOUR_BLIND      Unfavour() leaves called_back_
//   UNFAVOUR_LATE       Unfavour() after the entry has ceased to be published
//   NO_CALL_BACK_CLAIM  Append() to a favoured word does not claim
//   DROP_CALL_BACK      who gives up before others leaves them nobody to call back
// With NO_BIT_CHECKS these show what comes of them, else perhaps an invariant of the bits before.

#define FAVOUR
#define BIASED false
#define THREADS 3
#define OWNER 0
#define PUBLISHERS 1
#define MAY_TIME_OUT timed
#define TRY_LOCK

bool favoured;     // kFavoured and the Owner's record: the whole word.
bool called_back;  // The Owner's record. Guarded by the mutex.

#ifdef NO_CALL_BACK_CLAIM
#define APPEND_CLAIMS false
#else
#define APPEND_CLAIMS true
#endif
#define FAVOURED favoured
#define CALLED_BACK called_back
#define RMW (me != OWNER || BUFFERED(OWNER))
#define RELEASE (me != OWNER || empty(buffer[OWNER]))

#include "entries.pml"
#include "enter_leave.pml"

// The Owner calls itself back where it has come by Enter() to a word that favours it.
inline CallBack() {
  atomic { claim = true; of_owner = called_back }
  Unlock();
  if
  :: of_owner && me != OWNER -> Drain()
  :: of_owner && me == OWNER -> drained = true
  :: !of_owner && by_publication == 0 -> drained = true
  :: !of_owner && timed -> drained = false
  fi;
  Lock();
  if
  :: drained ->
     atomic {
       called_back = false; published = false; claimant = me
     }
  :: else -> GiveUp()
  fi;
  atomic { drained = false; of_owner = false }
}

inline Favour() {
#ifndef FAVOUR_UNLOCKED
  Lock();
#endif
  if
  :: atomic { writer && central == 0 && !(bias || published || queued || must_wake || claim) && RELEASE ->
       writer = false; favoured = true; how = published_write }
#ifdef ANY_WORD
  :: atomic { writer && queued && RELEASE ->
       writer = false; queued = false; must_wake = false; claim = false; favoured = true; how = published_write }
#else
  :: queued  // It is written already, and published reads or counted ones there are none.
#endif
  fi;
#ifndef FAVOUR_UNLOCKED
  Unlock();
#endif
}

inline Publish() {
  buffer[OWNER]!true;
  Light(OWNER);
}

inline AskFavour() {
#ifdef WORD_FIRST
  Favour();
  if
  :: how == published_write -> Publish()
  :: else
  fi;
#else
  Publish();
  Favour();
  if
  :: how == write -> Unpublish(OWNER)
  :: else
  fi;
#endif
}

inline TryLockFavoured() {
  LoadEarly(OWNER, favoured);
  Publish();
  if
#ifdef NO_SECOND_LOOK
  :: atomic { true ->
#else
  :: atomic { LOADED(OWNER, favoured) ->
#endif
       assert(early[OWNER] != NOT_YET || claimant == NOBODY);
       assert(!writing && reading == 0);
       early[OWNER] = NOT_YET;
       writing = true;
       how = published_write }
#ifndef NO_SECOND_LOOK
  :: atomic { !LOADED(OWNER, favoured) -> early[OWNER] = NOT_YET }
     Unpublish(OWNER)
#endif
  fi;
}

inline Unfavour() {
  Lock();
  if
  :: atomic { favoured -> favoured = false; writer = true }
  :: atomic { !favoured -> CHECK(queued && !writer && central == 0); writer = true;
#ifndef UNFAVOUR_BLIND
       called_back = false
#endif
     }
  fi;
  how = write;
  Unlock();
}

proctype Thread(byte me; mtype mine; bool timed; byte rounds) {
  mtype how = out;
  byte h = NOBODY;
  byte to_wake = NOBODY;
  byte p;
  byte next;
  bool any;
  bool timed_out;
  bool spun;
  bool drained;
  bool of_owner;
  bool left;
  mtype to = out;
  mode[me] = mine;
  do
  :: rounds == 0 -> break
  :: else ->
     if
     :: atomic { me == OWNER -> mine = exclusive; mode[me] = exclusive }
        if
        :: favoured -> TryLockFavoured()
        :: !favoured
        fi
     :: atomic { me == OWNER -> mine = shared; mode[me] = shared }
        Publish();
        Unpublish(OWNER)
     :: me != OWNER
     fi;
     if
     :: how == out -> TryEnter()
     :: else
     fi;
     if
     :: how == out -> Enter()
     :: how == write && me == OWNER -> AskFavour()
     :: how != out  // Nor has the Owner had the lock for long.
     fi;
     do
     :: how == out || how == gave_up -> break
     :: atomic { how == published_read -> by_publication--; reading--; how = out }
     :: atomic { how == published_write -> writing = false; how = out }
        Unpublish(OWNER)
     :: how == published_write ->
        to = central_read;
#ifdef UNFAVOUR_LATE
        Unpublish(OWNER);
        Unfavour()
#else
        Unfavour();
        Unpublish(OWNER)
#endif
     :: how == write || how == central_read ->
        if
        :: how == write && me == OWNER -> to = central_read
        :: to != central_read || how == central_read -> to = out
        fi;
        Leave(to)
     od;
     atomic { left = false; how = out; to = out };
     rounds--
  od
}

init {
  atomic {
    if
    :: favoured = true
    :: true
    fi;
    run Thread(OWNER, exclusive, false, 2);
    run Thread(1, exclusive, true, 1);
    run Thread(2, shared, false, 1);
  }
}
