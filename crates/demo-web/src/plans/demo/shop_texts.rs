//! What the shop sells: categories, products, and what is said about them.

pub(super) struct Category {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Name, price in cents, and the sentence that is about it alone.
    pub(super) products: [(&'static str, u32, &'static str); 8],
    /// What holds for all of them.
    pub(super) care: [&'static str; 3],
}

pub(super) const COLOURS: [&str; 6] = ["navy", "moss green", "brick red", "sand", "charcoal", "cream"];

pub(super) const CATEGORIES: [Category; 8] = [
    Category {
        name: "Lamps",
        about: "Light for desks, decks and dark corridors.",
        products: [
            (
                "Storm lantern",
                3490,
                "A lantern with a glass chimney that burns for twenty hours on one filling.",
            ),
            ("Brass desk lamp", 8900, "A heavy foot, a swivel arm and a warm cone of light on the page."),
            ("Paper moon lamp", 2450, "A round shade of rice paper that glows like a full moon."),
            (
                "Head torch",
                2790,
                "Bright enough for a night walk, with a red light that keeps the eyes used to the dark.",
            ),
            ("Candle holder", 1250, "Turned from beech, with a brass cup that catches the wax."),
            (
                "Ship's bulkhead light",
                6400,
                "A caged lamp as it hangs in engine rooms, splash-proof and nearly indestructible.",
            ),
            (
                "Reading clip",
                1590,
                "A small lamp that clips to a book and does not wake whoever sleeps beside you.",
            ),
            (
                "Garden solar light",
                1890,
                "Charges by day, lights the path by night, and turns itself off at dawn.",
            ),
        ],
        care: [
            "Wipe it with a dry cloth; brass may be polished once a year.",
            "The bulb can be replaced without tools.",
            "Delivered with a cable of two metres where there is one.",
        ],
    },
    Category {
        name: "Bags",
        about: "Things to carry things in.",
        products: [
            ("Canvas rucksack", 7900, "Waxed canvas, leather straps and a pocket for a laptop."),
            (
                "Market basket",
                3200,
                "Woven from willow by a family that has done nothing else for a century.",
            ),
            (
                "Sailcloth duffel",
                8600,
                "Sewn from old sails, so no two are alike and all of them are waterproof.",
            ),
            (
                "Cycle pannier",
                5400,
                "Clicks onto the rack, comes off with one hand, and keeps papers dry in a downpour.",
            ),
            (
                "Leather satchel",
                12900,
                "Vegetable-tanned leather that is stiff at first and then lasts for decades.",
            ),
            ("Tool roll", 2900, "Twelve pockets for chisels, brushes or spanners, tied with a cord."),
            ("String bag", 890, "Weighs nothing, fits in a fist and holds eight kilos of oranges."),
            (
                "Doctor's bag",
                15900,
                "Opens wide at the top and closes with a click that can be heard across the room.",
            ),
        ],
        care: [
            "Brush off dirt when it is dry, and re-wax canvas every other year.",
            "Seams are sewn twice and can be repaired by any saddler.",
            "Not for the washing machine.",
        ],
    },
    Category {
        name: "Kitchen",
        about: "Pots, knives and what bread needs.",
        products: [
            (
                "Cast iron pan",
                4900,
                "Gets hotter than any other, fries without sticking once it is seasoned.",
            ),
            ("Proving basket", 1890, "A cane basket in which sourdough rises and gets its pattern."),
            (
                "Bread knife",
                5200,
                "A long serrated blade that goes through the hardest crust without crumbs.",
            ),
            ("Enamel kettle", 3900, "Whistles in two notes and keeps the water free of any taste."),
            (
                "Coffee grinder",
                6900,
                "Ceramic burrs, a long handle and thirty settings from espresso to French press.",
            ),
            ("Rolling pin", 1450, "One piece of cherry wood without handles, as pastry cooks prefer it."),
            ("Salt cellar", 1990, "Soapstone, cool and heavy, with a lid that swings aside."),
            (
                "Copper jam pot",
                11900,
                "Wide and shallow, so that fruit boils down quickly and keeps its colour.",
            ),
        ],
        care: [
            "Wash by hand, dry at once, and oil what is made of iron or wood.",
            "Suitable for gas, induction and open fire where it is made of iron.",
            "Knives are sharpened for free as long as you own them.",
        ],
    },
    Category {
        name: "Writing",
        about: "Paper, ink and pens for letters that are kept.",
        products: [
            ("Fountain pen", 8400, "A steel nib that writes at once and does not scratch, even upside down."),
            ("Blue-black ink", 1290, "Dries dark, survives water and smells faintly of iron."),
            ("Dotted notebook", 1690, "Stitched pages that lie flat and do not let ink through."),
            ("Letter paper", 1450, "Fifty sheets with a deckle edge, and envelopes lined with tissue."),
            ("Pencil set", 1190, "Twelve cedar pencils from soft to hard in a tin."),
            ("Brass ruler", 2200, "Thirty centimetres, engraved, and heavy enough to hold a map open."),
            ("Sealing wax", 990, "Red sticks with a wick, which need no spoon."),
            ("Desk blotter", 4200, "A leather pad that protects the table and catches every blot."),
        ],
        care: [
            "Keep paper dry and ink out of the sun.",
            "Pens are flushed with cold water every few weeks.",
            "Engraving of initials takes three days.",
        ],
    },
    Category {
        name: "Outdoor",
        about: "For rain, wind, and nights under canvas.",
        products: [
            (
                "Two-person tent",
                28900,
                "Stands in five minutes, weighs two kilos and has withstood a gale on the cliffs.",
            ),
            ("Wool blanket", 9800, "Woven from undyed wool of upland sheep, warm even when it is damp."),
            ("Folding stool", 3400, "Three legs, a leather seat, and it fits under an arm."),
            ("Rain poncho", 4500, "Covers hiker and rucksack, and turns into a tarpaulin for lunch."),
            ("Steel flask", 2990, "Keeps tea hot from breakfast to the summit."),
            ("Pocket compass", 3900, "A calm needle, a mirror for bearings and a lid against knocks."),
            ("Camp stove", 5600, "Boils a litre in four minutes, and burns twigs if the gas runs out."),
            ("Climbing rope", 15400, "Sixty metres with a marked middle, supple in frost."),
        ],
        care: [
            "Dry everything before it is packed away.",
            "Zips run longer with a little wax.",
            "Spare parts are kept for fifteen years.",
        ],
    },
    Category {
        name: "Garden",
        about: "Tools that outlive the gardener.",
        products: [
            ("Hand trowel", 2400, "Forged in one piece, with an ash handle that fits small hands too."),
            ("Pruning shears", 5900, "Cuts a finger-thick branch clean, and every part can be replaced."),
            (
                "Watering can",
                4900,
                "Five litres, balanced so that it pours without strain, with a brass rose.",
            ),
            ("Apple picker", 3100, "A linen bag on a long pole, for the best apples, which hang highest."),
            ("Seed box", 2700, "A wooden box with dividers for every month of the year."),
            ("Bee hotel", 3300, "Hollow reeds and drilled oak in which wild bees nest."),
            ("Bird feeder", 2600, "Keeps seed dry and squirrels guessing."),
            ("Compost fork", 6200, "Four tines and a long shaft, so that the back stays straight."),
        ],
        care: [
            "Clean off soil and oil the wood with linseed once a year.",
            "Blades can be sent in for grinding.",
            "Store out of the rain, or do not; it will last either way.",
        ],
    },
    Category {
        name: "Clothing",
        about: "Wool, linen and oilskin.",
        products: [
            (
                "Fisherman's jumper",
                13900,
                "Knitted without seams from oiled wool, with a pattern that each port has for itself.",
            ),
            (
                "Linen shirt",
                8900,
                "Cool in summer, better after every wash, with buttons of mother-of-pearl.",
            ),
            ("Oilskin coat", 21900, "Long, heavy, and dry inside whatever happens outside."),
            ("Wool socks", 1990, "Thick at heel and toe, thin where the boot is tight."),
            ("Flat cap", 4400, "Tweed outside, silk inside, folds into a pocket."),
            ("Work trousers", 9900, "Moleskin that is soft as velvet and resists thorns."),
            ("Knitted scarf", 3900, "Two metres long, enough to go round twice."),
            ("Leather gloves", 6700, "Deerskin, lined with cashmere, cut so that one can still turn a key."),
        ],
        care: [
            "Wash wool cold and seldom; airing is enough.",
            "Sizes run large, so order what you usually wear or one less.",
            "Mending yarn is included.",
        ],
    },
    Category {
        name: "Toys",
        about: "Made of wood, string and patience.",
        products: [
            ("Wooden train", 4900, "An engine, three wagons and magnets that hold in curves."),
            ("Kite", 3600, "Ripstop sails and a tail of six metres, flies in the lightest wind."),
            ("Marble run", 5900, "Forty beech blocks from which a new track is built every day."),
            ("Chess set", 7400, "Weighted pieces of maple and walnut on a folding board."),
            ("Spinning top", 890, "Spins for three minutes if the table is level."),
            (
                "Puppet theatre",
                8800,
                "A folding stage with curtain, and four puppets: king, thief, crocodile and grandmother.",
            ),
            ("Skipping rope", 1200, "Cotton rope, turned handles, the right length from six to sixty."),
            ("Building planks", 6900, "Two hundred identical planks for towers, bridges and collapses."),
        ],
        care: [
            "Finished with oil that children may chew on.",
            "Lost pieces can be ordered one by one.",
            "Packed in a cotton bag instead of a box.",
        ],
    },
];
