//! Which socket a TLS object belongs to.
//!
//! A library need not touch the socket: Node, and Python's asyncio, pass it the cipher text in memory, and may
//! do so long after they have read it, in any order. What both sides share is the greeting: a TLS connection
//! begins with 32 bytes that its client chose at random. They cross the socket in the clear ([`greeting`] notes
//! them when the first bytes of a socket are examined), and the library keeps them in the object. So the object's
//! memory is searched for the greetings that this process has sent or received. A match of 64 random bits is no
//! coincidence, whichever thread did what in which order.
//!
//! Their place in the object depends on the library. It is found once and remembered for each process.
//!
//! Go's objects lead to their sockets ([`crate::tls_go`]). There the greeting confirms that this was right.
//!
//! The same bytes tell which process is at the other end, if it is on this machine: probes may reach it only after
//! its first connection is over.
//!
//! Cost: three insertions for each end of a TLS connection of the machine; some 700 reads of a process's memory and
//! as many look-ups for its first one that carries HTTP, and one of each for every other.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_ktime_get_boot_ns, bpf_loop},
    },
    macros::map,
    maps::LruHashMap,
};
use mcpinspect_common::{End, TlsPartyKey, tls_scope};

use crate::{
    kernel::{probe, user},
    offsets::{OFF_INODE_INO, TLS},
    tls_library,
};

/// Greetings to remember.
const GREETINGS_MAX: u32 = 16_384;
/// Words of an object to search.
const OBJECT_WORDS: u32 = 512;
/// Words to search of what it points to.
const STATE_WORDS: u32 = 96;
/// Where an object may point to the part that has the random bytes: OpenSSL 1.1, BoringSSL.
const STATE_AT: [u64; 2] = [0xa8, 0x30];

/// A record of the handshake, version 3.x.
const HANDSHAKE: u64 = 0x0316;
const CLIENT_HELLO: u64 = 1;
/// Bytes of a record's head.
const RECORD_HEAD: u64 = 5;
/// Bytes of a greeting from its type to the end of the random ones.
const GREETING: u64 = 38;
/// Where the last 24 of these begin: the first ones may be a clock.
const RANDOM_AT: u64 = 6 + 8;

/// What a process has sent or received.
#[repr(C)]
#[derive(Clone, Copy)]
struct GreetingKey {
    random: u64,
    tgid: u32,
    end: u32,
}

/// A socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Socket {
    pub ino: u64,
    /// The address of the inode.
    pub inode: u64,
    /// When a greeting crossed it, in nanoseconds since boot.
    pub greeted: u64,
}

#[map]
static TLS_GREETINGS: LruHashMap<GreetingKey, Socket> =
    LruHashMap::with_max_entries(GREETINGS_MAX, 0);

/// The process that was the first to send or receive a greeting: a relay does so later. User space reads it.
#[map]
static TLS_PARTIES: LruHashMap<TlsPartyKey, u32> = LruHashMap::with_max_entries(GREETINGS_MAX, 0);

/// By inode number: sockets that a greeting has crossed, for libraries whose objects lead to the socket.
#[map]
static TLS_GREETED_AT: LruHashMap<u64, Greeted> = LruHashMap::with_max_entries(GREETINGS_MAX, 0);

#[repr(C)]
#[derive(Clone, Copy)]
struct Greeted {
    inode: u64,
    /// In nanoseconds since boot.
    at: u64,
    random: u64,
    tgid: u32,
    end: u32,
}

/// By process: where the random bytes are in an object.
#[map]
static TLS_LAYOUTS: LruHashMap<u32, Layout> = LruHashMap::with_max_entries(4096, 0);

#[repr(C)]
#[derive(Clone, Copy)]
struct Layout {
    /// Where the pointer to the part that has them is; 0 if they are in the object itself.
    state_at: u64,
    offset: u64,
}

/// What crosses a socket for the first time, or next.
pub struct Crossing {
    pub socket: Socket,
    pub end: u32,
    /// Where it is.
    pub address: u64,
    pub length: u64,
    /// Its first eight bytes.
    pub word: u64,
    /// Bytes that crossed the same end before.
    pub before: u64,
}

/// Notes a greeting. Returns whether its greater part is still to come.
#[inline(always)]
pub fn greeting(crossing: &Crossing) -> bool {
    if TLS.load() == tls_scope::OFF {
        return false;
    }
    let Crossing {
        socket,
        end,
        address,
        length,
        word,
        before,
    } = *crossing;
    let at = if word & 0xffff == HANDSHAKE {
        if length == RECORD_HEAD {
            // A library that reads from the socket itself reads the head first.
            return before == 0;
        }
        if length < RECORD_HEAD + GREETING || (word >> 40) & 0xff != CLIENT_HELLO {
            return false;
        }
        address + RECORD_HEAD
    } else if before == RECORD_HEAD && word & 0xff == CLIENT_HELLO && length >= GREETING {
        address
    } else {
        return false;
    };
    if let Some(random) = user::<u64>(at + RANDOM_AT) {
        let key = GreetingKey {
            random,
            tgid: (bpf_get_current_pid_tgid() >> 32) as u32,
            end,
        };
        // SAFETY: no arguments.
        let greeted = unsafe { bpf_ktime_get_boot_ns() };
        let _ = TLS_GREETINGS.insert(key, Socket { greeted, ..socket }, 0);
        let party = TlsPartyKey {
            greeting: random,
            end: u64::from(end),
        };
        let _ = TLS_PARTIES.insert(party, key.tgid, u64::from(BPF_NOEXIST));
        let value = Greeted {
            inode: socket.inode,
            at: greeted,
            random,
            tgid: key.tgid,
            end,
        };
        let _ = TLS_GREETED_AT.insert(socket.ino, value, 0);
        let hello = tls_library::Hello {
            is_sent: end == End::Writer as u32,
            address: at,
            length: address + length - at,
        };
        tls_library::greets(hello);
    }
    false
}

/// The socket that an object leads to, if a greeting of this process has crossed it in the right direction; and some
/// random bytes of that greeting.
#[inline(always)]
pub fn greeted(ino: u64, inode: u64, is_client: bool) -> Option<(Socket, u64)> {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let end = if is_client {
        End::Writer as u32
    } else {
        End::Reader as u32
    };
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    let greeted = unsafe { TLS_GREETED_AT.get(ino) }.copied()?;
    let is_it = greeted.inode == inode
        && greeted.tgid == tgid
        && greeted.end == end
        && probe::<u64>(inode, OFF_INODE_INO.load()) == ino;
    let socket = Socket {
        ino,
        inode,
        greeted: greeted.at,
    };
    is_it.then_some((socket, greeted.random))
}

/// The socket of an object, which is known to have the inode number `ino` if that is not 0, and some random bytes of
/// its greeting. `is_client`: the process has sent the greeting.
#[inline(always)]
pub fn socket_of(object: u64, ino: u64, is_client: bool) -> Option<(Socket, u64)> {
    let mut search = Search {
        object,
        at: 0,
        tgid: (bpf_get_current_pid_tgid() >> 32) as u32,
        end: if is_client {
            End::Writer as u32
        } else {
            End::Reader as u32
        },
        socket: Socket {
            ino: 0,
            inode: 0,
            greeted: 0,
        },
        random: 0,
    };
    // A loop because of the verifier: it checks the search once, wherever it begins.
    // SAFETY: `part_step` has the signature of a loop callback, and the search outlives the loop.
    unsafe {
        bpf_loop(PARTS, part_step as *mut c_void, (&raw mut search).cast(), 0);
    }
    let found = search.socket;
    let is_it = found.ino != 0
        && (ino == 0 || ino == found.ino)
        && probe::<u64>(found.inode, OFF_INODE_INO.load()) == found.ino;
    is_it.then_some((found, search.random))
}

/// A search for a greeting.
#[repr(C)]
struct Search {
    object: u64,
    at: u64,
    tgid: u32,
    end: u32,
    socket: Socket,
    /// What was found, and later where.
    random: u64,
}

/// Parts to search: where the last one of this process had it, the object itself, and two that it may point
/// to.
const PARTS: u32 = 4;

unsafe extern "C" fn part_step(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `socket_of` passes to the loop.
    let search = unsafe { &mut *context.cast::<Search>() };
    let mut layout = Layout {
        state_at: 0,
        offset: 0,
    };
    let mut words = STATE_WORDS;
    // Constant indices: older verifiers cannot bound a variable one.
    if index == 0 {
        // SAFETY: entries are replaced whole, and stay allocated while the program runs.
        let Some(known) = (unsafe { TLS_LAYOUTS.get(search.tgid) }) else {
            return 0;
        };
        layout = *known;
        words = 1;
    } else if index == 1 {
        words = OBJECT_WORDS;
    } else if index == 2 {
        layout.state_at = STATE_AT[0];
    } else {
        layout.state_at = STATE_AT[1];
    }
    let part = if layout.state_at == 0 {
        search.object
    } else {
        user::<u64>(search.object + layout.state_at).unwrap_or(0)
    };
    search.at = part + layout.offset;
    // SAFETY: `word_step` has the signature of a loop callback, and the search outlives the loop.
    unsafe {
        bpf_loop(words, word_step as *mut c_void, context, 0);
    }
    if search.socket.ino == 0 {
        return 0;
    }
    if index != 0 {
        layout.offset = search.at - part;
        let _ = TLS_LAYOUTS.insert(search.tgid, layout, 0);
    }
    1
}

unsafe extern "C" fn word_step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `part_step` passes to the loop.
    let search = unsafe { &mut *context.cast::<Search>() };
    let Some(random) = user::<u64>(search.at) else {
        return 1;
    };
    if random != 0 {
        let key = GreetingKey {
            random,
            tgid: search.tgid,
            end: search.end,
        };
        if let Some(socket) = TLS_GREETINGS.get_ptr(key) {
            // Word by word: parts that may overlap would be copied by a function, for which no stack is left.
            // SAFETY: aligned words of an entry that stays allocated while the program runs.
            unsafe {
                search.socket.ino = (&raw const (*socket).ino).read_volatile();
                search.socket.inode = (&raw const (*socket).inode).read_volatile();
                search.socket.greeted = (&raw const (*socket).greeted).read_volatile();
            }
            search.random = random;
            return 1;
        }
    }
    search.at += 8;
    0
}
