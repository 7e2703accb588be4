// The second level of the fleet cache: what the scripts in Redis store and answer. One key, within one reign.
//
// Loader(c)  a call that misses, in one of two processes: it asks, loads from the database if it is granted the lease,
//            and fills. Each call has its own token. There are TOKENS calls in all.
// Writer     a process that writes the database and invalidates the key or a tag that the value has (or "all"), or that
//            calls Put: an invalidation that is granted the lease in the same step, and then a fill.
// Late       requests whose client has given up, and that arrive at any later time. Nobody receives their replies.
// Faults     a lease lapses or is evicted, the value expires or is evicted, and Redis forgets an invalidation's id.
//
// Invariants.
//  - P1: no script stores or returns a value that is older than an invalidation that ran before.
//  - An answer (value, position) is right: the value takes account of all invalidations up to the position. The first
//    level relies on this (fleet_cache.pml).
//  - P4: a lease is granted only if each loader that is loading has lost its own, because it lapsed or was voided.
//  - An invalidation that is repeated runs once, unless its id was forgotten.
//
// A request runs when it arrives. Its reply may be lost; then the client repeats the request or gives up. A late reply
// needs no step of its own, because it is the same as a client that takes its next step late. Versions of the database
// count up; a value is its version plus 1.
//
// Put. The caller wrote the database before the call, perhaps long ago. While the call runs, its value counts as
// written at the moment at which Redis grants the lease, so the version counts up at that moment. After the call was
// given up, the value may be outdated.
//
// Broken: NO_VOID (an invalidation of the key keeps its lease), NO_TAG_AT_FILL, NO_TAG_AT_ASK (the tag's position is
// not compared), ANY_TOKEN (a fill does not compare the token), NO_POSITION (a fill does not compare its position with
// the lease's), REPEAT_UNCHECKED (a repeated fill checks nothing, and answers with the present position), FAIL_BLIND (a
// lease is given back without a comparison of the token), ASK_TAKES_LEASE (an ask ignores a lease), LATE_PUT (a grant
// that comes after its call is used), NO_IDS (invalidations have no ids), REFUSED_IS_RUN (a client takes a refused
// invalidation for one that ran), FORGETS_TAGS (the position of a tag is dropped, and that of "all" is not raised).

#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef LOST
#define LOST 1
#endif
#define POSITIONS 8
#define NONE 0

mtype = { unknown, hit, granted, busy, stored, refused, done };

byte db;

// Redis. Positions begin with 1.
byte q = 1;
byte tag_position;
byte value, value_position, value_token;
byte lease, lease_position;  // A token.
byte known_position[WRITES + 1];  // Of an invalidation's id. 0: unknown.

// Requests that are late.
byte late_ask;
byte late_fill, late_fill_value, late_fill_position;
byte late_id, late_token, late_version;
bool late_of_tag;

// Ghosts.
byte run_version;  // The newest version of which an invalidation ran.
byte version_at[POSITIONS];
byte loading[2];  // Tokens.
bool lost_lease[TOKENS + WRITES + 2];
bool ran[WRITES + 1];
bool put_open;
byte put_value;
byte tokens;
byte lost;

inline CheckAnswer(x, position) { assert(x > run_version && x > version_at[position]) }

inline EndLease() {
  lease = NONE;
  lease_position = 0
}

inline LoseLease() {
  lost_lease[lease] = true;
  EndLease()
}

inline Grant(token) {
  assert(loading[0] == NONE || loading[0] == token || lost_lease[loading[0]]);
  assert(loading[1] == NONE || loading[1] == token || lost_lease[loading[1]]);
  lost_lease[token] = false;
  lease = token;
  lease_position = q
}

inline DropValue() {
  value = NONE;
  value_position = 0;
  value_token = NONE
}

#ifdef NO_TAG_AT_ASK
#define VALID (value != NONE)
#else
#define VALID (value != NONE && value_position >= tag_position)
#endif

#ifdef ASK_TAKES_LEASE
#define HELD false
#else
#define HELD (lease != NONE)
#endif

// The scripts. Each sets `answer`.
inline Ask(token) {
  if
  :: VALID -> CheckAnswer(value, q); answer = hit
  :: else ->
     DropValue();
     if
     :: lease == token -> answer = granted
     :: lease != token && HELD -> answer = busy
     :: else -> Grant(token); answer = granted
     fi;
     position = (answer == granted -> lease_position : 0)
  fi
}

#ifdef ANY_TOKEN
#define MINE(token) (lease != NONE)
#else
#define MINE(token) (lease == token)
#endif
#ifdef NO_POSITION
#define SAME_POSITION(p) true
#else
#define SAME_POSITION(p) (lease_position == p)
#endif
#ifdef NO_TAG_AT_FILL
#define TAG_ALLOWS(p) true
#else
#define TAG_ALLOWS(p) (tag_position <= p)
#endif

inline Fill(token, x, p) {
  if
  :: MINE(token) ->
     if
     :: SAME_POSITION(p) && TAG_ALLOWS(p) ->
        value = x;
        value_position = p;
        value_token = token;
        CheckAnswer(x, q);
        answer = stored
     :: else -> answer = refused
     fi;
     EndLease()
  :: else ->
     if
#ifdef REPEAT_UNCHECKED
     :: value_token == token -> CheckAnswer(x, q); answer = stored
     :: else -> answer = refused
#else
     :: value_token == token && VALID -> CheckAnswer(x, value_position); answer = stored
     :: else -> answer = refused
#endif
     fi
  fi
}

inline Fail(token) {
  if
#ifdef FAIL_BLIND
  :: lease != NONE -> EndLease()
#else
  :: lease == token -> EndLease()
#endif
  :: else
  fi
}

#ifdef NO_IDS
#define KNOWN(id) false
#else
#define KNOWN(id) (known_position[id] != 0)
#endif

// `token`: also grants the lease, for a Put.
inline Invalidate(id, version, token, of_tag) {
  if
  :: KNOWN(id) ->
     position = known_position[id]
  :: else ->
     assert(!ran[id]);
     ran[id] = true;
     q++;
     if
     :: run_version < version -> run_version = version
     :: else
     fi;
     version_at[q] = run_version;
     if
     :: of_tag -> tag_position = q
     :: else ->
        DropValue();
        if
#ifdef NO_VOID
        :: lease != NONE -> lost_lease[lease] = true
#else
        :: lease != NONE -> LoseLease()
#endif
        :: else
        fi;
        if
        :: token != NONE -> Grant(token)
        :: else
        fi
     fi;
     known_position[id] = q;
     position = q
  fi;
  answer = (token != NONE && lease == token -> granted : done)
}

// The reply may be lost.
inline MayLose() {
  if
  :: true
  :: lost < LOST -> lost++; answer = unknown
  fi
}

proctype Loader(byte c) {
  mtype answer = unknown;
  byte token;
  byte position;
  byte x;
end:
  do
  :: atomic {
       token != NONE || tokens < TOKENS && tokens >= c ->  // The first call is Loader(0)'s, by symmetry.
       if
       :: token == NONE -> tokens++; token = tokens
       :: else
       fi;
       Ask(token);
       MayLose();
       if
       :: late_ask == NONE && lost < LOST -> lost++; late_ask = token
       :: true
       fi;
       if
       :: answer == granted -> loading[c] = token
       :: answer == hit -> token = NONE
       :: answer == busy || answer == unknown
       fi
     }
     if
     :: answer == granted ->
        x = db + 1;
        do
        :: atomic {
             true -> loading[c] = NONE;
             Fill(token, x, position);
             MayLose();
             if
             :: late_fill == NONE && lost < LOST ->
                lost++;
                late_fill = token;
                late_fill_value = x;
                late_fill_position = position
             :: true
             fi;
             if
             :: answer != unknown -> break
             :: answer == unknown
             fi
           }
        :: atomic { true -> loading[c] = NONE; Fail(token); break }
        :: loading[c] = NONE; break
        od;
        atomic {
          token = NONE;
          position = 0;
          x = 0
        }
     :: answer != granted
     fi;
     answer = unknown
  :: atomic { token != NONE -> Fail(token); token = NONE }  // The call was given up.
  od
}

// A Put's value counts as written now, unless its call has ended.
inline Arrive(id, version, token, of_tag) {
  if
  :: token != NONE && put_open && !KNOWN(id) -> db++; version = db; put_value = db + 1
  :: else
  fi;
  Invalidate(id, version, token, of_tag)
}

inline SendFill() {
  atomic {
    Fill(token, put_value, position);
    MayLose()
  }
}

proctype Writer() {
  mtype answer = unknown;
  byte id;
  byte version;
  byte token;
  byte position;
  bool of_tag;
  do
  :: id < WRITES ->
     if
     :: atomic { id++; db++; version = db }
        if
        :: of_tag = true
        :: true
        fi
     :: atomic { id++; version = db; token = TOKENS + id; put_open = true; put_value = db + 1 }
     fi;
     do
     :: atomic {
          if
          :: late_id == NONE && lost < LOST ->
             lost++;
             late_id = id;
             late_version = version;
             late_token = token;
             late_of_tag = of_tag
          :: true
          fi;
          if
          :: Arrive(id, version, token, of_tag); MayLose()
          :: lost < LOST -> lost++; answer = refused
          fi
        }
        if
#ifdef REFUSED_IS_RUN
        :: answer == refused -> atomic { run_version = (run_version < version -> version : run_version) }
           break
#endif
        :: answer == done -> break
        :: answer == granted -> SendFill(); break
        :: answer == unknown || answer == refused
        :: answer == unknown || answer == refused -> break
        fi
     od;
     atomic {
       put_open = false;
       put_value = 0;
       of_tag = false;
       token = NONE;
       position = 0;
       version = 0;
       answer = unknown
     }
  :: id == WRITES -> break
  od
}

proctype Late() {
  mtype answer = unknown;
  byte position;
end:
  do
  :: atomic { late_ask != NONE -> Ask(late_ask); late_ask = NONE; answer = unknown; position = 0 }
  :: atomic {
       late_fill != NONE -> Fill(late_fill, late_fill_value, late_fill_position);
       late_fill = NONE;
       late_fill_value = 0;
       late_fill_position = 0;
       answer = unknown
     }
  :: atomic {
       late_id != NONE -> Arrive(late_id, late_version, late_token, late_of_tag);
#ifdef LATE_PUT
       if
       :: answer == granted && !put_open -> Fill(late_token, late_version + 1, position)
       :: else
       fi;
#endif
       late_id = NONE;
       late_version = 0;
       late_token = NONE;
       late_of_tag = false;
       answer = unknown;
       position = 0
     }
  od
}

proctype Faults() {
end:
  do
  :: atomic { lease != NONE -> LoseLease() }
  :: atomic { value != NONE -> DropValue() }
  :: atomic { known_position[1] != 0 -> known_position[1] = 0; ran[1] = false }
#ifdef FORGETS_TAGS
  :: atomic { tag_position != 0 -> tag_position = 0 }
#endif
  od
}

init {
  atomic {
    run Loader(0);
    run Loader(1);
    run Writer();
    run Late();
    run Faults()
  }
}
