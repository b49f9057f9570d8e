//! The vocabulary and its merges: one piece to ids, one id to bytes. Knows no splitter and no added tokens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hasher;

use rustc_hash::FxHasher;

/// No id: vocabularies are far smaller.
const NONE: u32 = u32::MAX;

/// Pieces up to this many bytes are merged by scanning for the lowest rank, longer ones with a heap.
const SCAN_LIMIT: usize = 64;

/// The bytes of all tokens, by id.
#[derive(Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl TokenBytes {
    /// Room for this many tokens.
    pub(super) fn with_capacity(tokens: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(tokens) }
    }

    /// Adds the token with the next id. One without bytes is an id that the vocabulary does not have.
    pub(super) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.end_token();
    }

    /// Adds the token that is `left` and `right` joined.
    fn push_joined(&mut self, left: u32, right: u32) {
        self.bytes.extend_from_within(self.range(left));
        self.bytes.extend_from_within(self.range(right));
        self.end_token();
    }

    fn end_token(&mut self) {
        let end = u32::try_from(self.bytes.len()).expect("callers check that a vocabulary has less than 4 GiB");
        self.ends.push(end);
    }

    fn range(&self, id: u32) -> std::ops::Range<usize> {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        start as usize..self.ends[id] as usize
    }

    /// The bytes of `id`, empty for an id that the vocabulary does not have.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        if (id as usize) < self.ends.len() {
            &self.bytes[self.range(id)]
        } else {
            &[]
        }
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A byte-level BPE vocabulary. Ids of merge products rise with the rank of the merge.
pub(super) struct Vocabulary {
    tokens: TokenBytes,
    byte_ids: [u32; 256],
    /// The two tokens that merge to an id, by id.
    parts: Vec<Option<(u32, u32)>>,
    /// (left, right) to the product.
    products: IdTable,
    /// Bytes to the token that merging makes of them.
    whole: IdTable,
}

impl Vocabulary {
    /// A vocabulary where ids go on from `first`: 256 single bytes, then the products of `merges` in rank order.
    pub(super) fn consecutive(first: u32, bytes: &[u8], merges: impl ExactSizeIterator<Item = (u32, u32)>) -> Self {
        let size = first as usize + bytes.len() + merges.len();
        // A token of a released vocabulary has under 8 bytes on average.
        let mut tokens = TokenBytes::with_capacity(size, size * 8);
        let mut byte_ids = [NONE; 256];
        (0..first).for_each(|_| tokens.push(&[]));
        for &byte in bytes {
            byte_ids[byte as usize] = tokens.len() as u32;
            tokens.push(&[byte]);
        }
        let mut parts = Vec::with_capacity(size);
        parts.resize(tokens.len(), None);
        for (left, right) in merges {
            parts.push(Some((left, right)));
            tokens.push_joined(left, right);
        }
        let mut vocabulary = Self::new(tokens, byte_ids, parts);
        for id in first..size as u32 {
            vocabulary.take_whole(id);
        }
        vocabulary
    }

    /// A vocabulary where `parts` says, for each id, which two tokens make it. No token is taken whole yet.
    pub(super) fn new(tokens: TokenBytes, byte_ids: [u32; 256], parts: Vec<Option<(u32, u32)>>) -> Self {
        let mut products = IdTable::new(parts.len());
        for (id, parts) in (0..).zip(&parts) {
            if let Some((left, right)) = *parts {
                products.insert(hash_pair(left, right), id);
            }
        }
        Self { whole: IdTable::new(tokens.len()), tokens, byte_ids, parts, products }
    }

    /// Says that a piece with the bytes of `id` is this one token. It must be what merging makes of them.
    pub(super) fn take_whole(&mut self, id: u32) {
        self.whole.insert(hash_bytes(self.tokens.get(id)), id);
    }

    /// The bytes of `id`, empty for an id that the vocabulary does not have.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.tokens.get(id)
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Appends the ids of one piece.
    pub(super) fn encode_piece(&self, piece: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        match self.whole.get(hash_bytes(piece), |id| self.tokens.get(id) == piece) {
            Some(id) => ids.push(id),
            None => self.merge_piece(piece, merger, ids),
        }
    }

    /// Appends the ids that merging makes of one piece: the lowest rank first, leftmost of equals.
    pub(super) fn merge_piece(&self, piece: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        if piece.len() <= SCAN_LIMIT {
            merger.merge_by_scan(self, piece, ids);
        } else {
            merger.merge_by_heap(self, piece, ids);
        }
    }

    /// The product of two tokens that stand side by side, or `NONE`.
    fn product(&self, left: u32, right: u32) -> u32 {
        let wanted = Some((left, right));
        self.products.get(hash_pair(left, right), |id| self.parts[id as usize] == wanted).unwrap_or(NONE)
    }
}

/// Scratch space of merging, reused from piece to piece.
#[derive(Default)]
pub(super) struct Merger {
    tokens: Vec<u32>,
    /// The product of each token and the one after it.
    products: Vec<u32>,
    nodes: Vec<Node>,
    heap: BinaryHeap<Reverse<(u32, usize)>>,
}

/// A token of a long piece: a linked list in place, so that a merge moves nothing.
struct Node {
    token: u32,
    /// The product of this token and the next one; `NONE` too for a node that was merged away.
    product: u32,
    previous: usize,
    next: usize,
}

/// The end of the list of nodes, in both directions.
const END: usize = usize::MAX;

impl Merger {
    fn merge_by_scan(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        let Self { tokens, products, .. } = self;
        tokens.clear();
        tokens.extend(piece.iter().map(|&byte| vocabulary.byte_ids[byte as usize]));
        products.clear();
        products.extend(tokens.windows(2).map(|pair| vocabulary.product(pair[0], pair[1])));
        // The first of equal ones is the leftmost.
        while let Some((at, &product)) = products.iter().enumerate().min_by_key(|&(_, &product)| product) {
            if product == NONE {
                break;
            }
            tokens[at] = product;
            tokens.remove(at + 1);
            products.remove(at);
            if at > 0 {
                products[at - 1] = vocabulary.product(tokens[at - 1], product);
            }
            if at < products.len() {
                products[at] = vocabulary.product(product, tokens[at + 1]);
            }
        }
        ids.extend_from_slice(tokens);
    }

    fn merge_by_heap(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        let Self { nodes, heap, .. } = self;
        nodes.clear();
        nodes.extend(piece.iter().enumerate().map(|(at, &byte)| Node {
            token: vocabulary.byte_ids[byte as usize],
            product: NONE,
            previous: at.wrapping_sub(1),
            next: at + 1,
        }));
        if let Some(last) = nodes.last_mut() {
            last.next = END;
        }
        heap.clear();
        for at in 0..nodes.len() {
            pair_with_next(vocabulary, nodes, heap, at);
        }
        while let Some(Reverse((product, at))) = heap.pop() {
            // Tokens only grow, so a node that still makes this product is the one that was meant.
            if nodes[at].product != product {
                continue;
            }
            let gone = nodes[at].next;
            let (previous, next) = (nodes[at].previous, nodes[gone].next);
            nodes[gone].product = NONE;
            nodes[at].token = product;
            nodes[at].next = next;
            if next != END {
                nodes[next].previous = at;
            }
            pair_with_next(vocabulary, nodes, heap, at);
            if previous != END {
                pair_with_next(vocabulary, nodes, heap, previous);
            }
        }
        let mut at = if nodes.is_empty() { END } else { 0 };
        while at != END {
            ids.push(nodes[at].token);
            at = nodes[at].next;
        }
    }
}

fn pair_with_next(
    vocabulary: &Vocabulary,
    nodes: &mut [Node],
    heap: &mut BinaryHeap<Reverse<(u32, usize)>>,
    at: usize,
) {
    let next = nodes[at].next;
    let product = if next == END { NONE } else { vocabulary.product(nodes[at].token, nodes[next].token) };
    nodes[at].product = product;
    if product != NONE {
        heap.push(Reverse((product, at)));
    }
}

/// A hash table of ids; what an id is filed under is known elsewhere. At most half full.
struct IdTable {
    slots: Vec<u32>,
}

impl IdTable {
    /// Room for this many ids.
    fn new(capacity: usize) -> Self {
        Self { slots: vec![NONE; (capacity * 2).next_power_of_two()] }
    }

    /// Files `id`, which must not be there yet. No more ids than there is room for may be filed.
    fn insert(&mut self, hash: u64, id: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != NONE {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = id;
    }

    fn get(&self, hash: u64, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != NONE {
            if is_wanted(self.slots[slot]) {
                return Some(self.slots[slot]);
            }
            slot = (slot + 1) & mask;
        }
        None
    }
}

fn hash_pair(left: u32, right: u32) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(u64::from(left) << 32 | u64::from(right));
    hasher.finish()
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
