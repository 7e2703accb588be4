// Two readers by publication, the lock's word as they see it, and how they read through it. Included by
// read_revocation.pml and upgrade.pml.

#define PUBLISHERS 2

#include "entries.pml"

// The word. `claim` keeps central readers out, `queued` keeps them from setting `bias`.
bool writing;  // kWriter, and who is inside.
bool bias = true;
bool published = true;
bool claim;
bool queued;
byte central;

// Ghost: how many read.
byte reading;

// Reads centrally: TryEnter(), or Enter() of a reader that need not wait for its turn. Entered() may set `bias` again.
inline EnterCentrally(r) {
  atomic {
    !writing && !claim && BUFFERED(r) -> central++;
    if
    :: !queued -> bias = true; published = true
    :: true  // Too few central reads yet.
    fi;
    reading++
  }
}
