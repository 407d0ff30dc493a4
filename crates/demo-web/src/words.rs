//! Word lists of the generated text.

#[rustfmt::skip]
pub(crate) const NOUNS: &[&str] = &[
    "river", "garden", "window", "bridge", "letter", "market", "engine", "captain", "mountain", "orchard",
    "teacher", "kettle", "harbour", "ladder", "painter", "forest", "clock", "village", "mirror", "blanket",
    "carpenter", "island", "piano", "suitcase", "lantern", "baker", "meadow", "compass", "tailor",
    "station", "valley", "violin", "shepherd", "cabin", "thunder", "ribbon", "farmer", "canal", "basket",
    "sailor", "castle", "pepper", "pencil", "doctor", "glacier", "notebook", "tunnel", "fisherman",
    "barrel", "chimney", "desert", "musician", "anchor", "bicycle", "lemon", "library", "miner",
    "cathedral", "spoon", "wagon", "swallow", "gardener", "marble", "hammer", "tower", "oyster", "printer",
    "saddle", "quarry", "theatre", "feather", "lake", "surgeon", "candle", "vineyard", "cliff", "merchant",
    "button", "stove", "rabbit", "museum", "archer", "cinema", "cellar", "pilot", "drum", "cottage",
    "needle", "reef", "judge", "fountain", "hinge", "walnut", "tractor", "poet", "shoemaker", "glove",
    "barn", "telescope", "ferry", "puppet", "dentist", "gate", "cherry", "pump", "student", "flute",
    "crane", "balcony", "scarf", "plough", "minister", "pocket", "cave", "salmon", "factory", "singer",
    "brick", "wheat", "crown", "antler", "widow", "stable", "magnet", "kitchen", "acorn", "barge", "tutor",
    "veil", "beetle", "hostel", "gravel", "jacket", "oven", "parade", "herring", "statue", "ledger",
    "hermit", "sparrow", "turbine", "nurse", "envelope", "staircase", "badger", "ocean", "cobbler", "radio",
    "monk", "plum", "bandage", "signal", "weaver", "heron", "trumpet", "olive", "curtain", "dragon",
    "mayor", "parcel", "kiln", "thistle",
];

#[rustfmt::skip]
pub(crate) const VERBS: &[&str] = &[
    "carried", "painted", "followed", "repaired", "crossed", "measured", "borrowed", "watched", "collected",
    "sold", "hid", "counted", "visited", "burned", "moved", "answered", "remembered", "polished", "planted",
    "ignored", "studied", "lifted", "weighed", "guarded", "opened", "mended", "shook", "described",
    "traded", "admired", "invented", "dropped", "buried", "feared", "defended", "copied", "cleaned", "lost",
    "heard", "crowned", "questioned", "delayed", "helped", "sketched", "washed", "warmed", "surrounded",
    "rescued", "taught", "sorted", "pushed", "caught", "bought", "shared", "climbed", "missed", "signed",
    "served", "praised", "joined", "finished", "examined", "doubted", "divided", "chased", "changed",
    "balanced", "arranged", "accused", "welcomed", "wrapped", "widened", "wasted", "unpacked", "tested",
    "sheltered", "scattered", "ruled", "rented", "reached", "prepared", "pleased", "paused", "ordered",
    "offered", "noticed",
];

#[rustfmt::skip]
pub(crate) const ADJECTIVES: &[&str] = &[
    "quiet", "yellow", "ancient", "narrow", "broken", "gentle", "heavy", "silver", "distant", "curious",
    "wooden", "bitter", "crowded", "frozen", "hollow", "patient", "golden", "wild", "empty", "clever",
    "dusty", "modest", "salty", "proud", "sudden", "tidy", "foreign", "loyal", "crooked", "bright",
    "humble", "rusty", "early", "stubborn", "velvet", "shallow", "noisy", "royal", "pale", "fragile",
    "sleepy", "enormous", "honest", "muddy", "rapid", "secret", "cheerful", "lonely", "polished", "sour",
    "steep", "tender", "urgent", "vivid", "weary", "young", "blunt", "calm", "damp", "elegant", "faint",
    "grand", "hidden", "icy", "jolly", "keen", "lavish", "mellow", "northern", "obscure", "plain", "rare",
    "scarlet", "thick", "unusual", "violet", "woollen", "brave", "coarse", "dim", "eager", "fertile",
];

#[rustfmt::skip]
pub(crate) const ADVERBS: &[&str] = &[
    "slowly", "often", "gladly", "rarely", "quietly", "twice", "barely", "openly", "bravely", "nearly",
    "always", "seldom", "loudly", "calmly", "neatly", "later", "suddenly", "carefully", "warmly", "sadly",
    "simply", "politely", "eagerly", "firmly", "gently", "honestly", "kindly", "lightly", "mostly", "nobly",
    "partly", "quickly", "roughly", "safely", "tightly", "usually", "vainly", "widely", "yearly",
];

#[rustfmt::skip]
pub(crate) const PLACES: &[&str] = &[
    "Ashford", "Brindle", "Calder", "Dunmore", "Elsby", "Farrow", "Glenhaven", "Harwick", "Inverly",
    "Jessop", "Kelmar", "Lindow", "Marwell", "Norbury", "Orrin", "Pelham", "Quenby", "Redmire", "Selwick",
    "Thornby", "Ulverton", "Varley", "Westmere", "Yarrow", "Zennor", "Aldgate", "Bexley", "Corley",
    "Drayton", "Easton", "Felbrigg", "Garston", "Holme", "Ilkley", "Jarvis", "Kirkby", "Lowick", "Melton",
    "Newlyn", "Otley",
];

#[rustfmt::skip]
pub(crate) const OPENINGS: &[&str] = &[
    "before the war", "in spring", "after supper", "for many years", "at dawn", "last winter",
    "by accident", "long ago", "in secret", "against advice", "on market days", "without warning",
    "every autumn", "for a small fee", "under oath", "during the flood", "at the crossroads",
    "in those days", "to everyone's surprise", "once a week", "since the fire", "despite the rain",
    "beyond the wall", "according to legend", "at low tide", "with great effort", "in the meantime",
    "two days later", "as a rule", "for lack of money",
];
