//! `world.localhost`: letters from abroad in French, German and Japanese.

use super::{WORLD, styled};
use crate::{
    draft::{Draft, Place},
    html::Link,
};

/// Language, path, title, paragraphs.
type Letter = (&'static str, &'static str, &'static str, [&'static str; 2]);

const LETTERS: [Letter; 12] = [
    (
        "fr",
        "/fr/marche",
        "Le marché du samedi",
        [
            "Le samedi, toute la ville descend au marché. On y trouve des fromages de montagne, des poires, du pain de seigle et le miel du vieux Léon.",
            "À midi, les marchands rangent leurs tréteaux et déjeunent ensemble sous les platanes.",
        ],
    ),
    (
        "fr",
        "/fr/train",
        "Le train de nuit",
        [
            "Le train de nuit quitte la gare à vingt-deux heures. On s’endort dans la plaine et l’on se réveille au bord de la mer.",
            "Le contrôleur connaît les habitués par leur prénom et leur garde toujours la couchette du bas.",
        ],
    ),
    (
        "fr",
        "/fr/phare",
        "La gardienne du phare",
        [
            "Depuis trente ans, elle monte chaque soir les deux cents marches du phare, même si la lampe s’allume désormais toute seule.",
            "Par temps clair, dit-elle, on voit les îles ; par temps de brouillard, on entend les baleines.",
        ],
    ),
    (
        "fr",
        "/fr/boulangerie",
        "Une boulangerie sans enseigne",
        [
            "La boulangerie n’a pas d’enseigne, mais l’odeur suffit. Le levain a été offert par une grand-mère et nourri chaque jour depuis.",
            "Les clients apportent leur sac, posent leurs pièces et repartent sans un mot, la bouche déjà pleine.",
        ],
    ),
    (
        "de",
        "/de/brot",
        "Brot aus dem Holzofen",
        [
            "Im Dorf wird noch einmal in der Woche im gemeinsamen Holzofen gebacken. Wer zuerst kommt, muss heizen, wer zuletzt kommt, fegt die Asche.",
            "Das Roggenbrot hält sich zwei Wochen und schmeckt am dritten Tag am besten.",
        ],
    ),
    (
        "de",
        "/de/sternwarte",
        "Die Sternwarte auf dem Hügel",
        [
            "Die Sternwarte wurde von Schülern gebaut und hat eine Kuppel, die man von Hand dreht. In klaren Nächten sieht man die Ringe des Saturn.",
            "Der Gemeinderat schaltet dafür die Straßenlaternen eine Stunde früher aus.",
        ],
    ),
    (
        "de",
        "/de/bahnhof",
        "Der kleinste Bahnhof des Landes",
        [
            "Am kleinsten Bahnhof des Landes hält der Zug nur, wenn jemand winkt. Die Uhr geht fünf Minuten vor, damit niemand zu spät kommt.",
            "Im Wartesaal stehen Bücher, die man mitnehmen darf, wenn man ein anderes zurücklässt.",
        ],
    ),
    (
        "de",
        "/de/gaerten",
        "Gärten über den Dächern",
        [
            "Auf den Dächern der Stadt wachsen Tomaten, Bohnen und Kürbisse, und die Bienen finden sie ohne Karte.",
            "Im Herbst wird getauscht: Marmelade gegen Honig, Setzlinge gegen gute Ratschläge.",
        ],
    ),
    (
        "ja",
        "/ja/minato",
        "港の猫",
        [
            "港には二十匹ほどの猫が住んでいる。漁師が帰ってくる時間をよく知っていて、船が見える前に桟橋に並ぶ。",
            "雨の日には網小屋で眠り、晴れた日には灯台の階段で日なたぼっこをする。",
        ],
    ),
    (
        "ja",
        "/ja/pan",
        "山のパン屋",
        [
            "山のパン屋は朝五時に店を開ける。薪の窯で焼いたパンは外が固く、中はやわらかい。",
            "水は裏山の泉からくみ、小麦は谷の畑でとれたものだけを使う。",
        ],
    ),
    (
        "ja",
        "/ja/ressha",
        "夜行列車の窓",
        [
            "夜行列車の窓から見る町の灯りは、星のように流れていく。眠れない人は食堂車でお茶を飲む。",
            "朝になると海が見え、車掌が静かに次の駅の名前を告げる。",
        ],
    ),
    (
        "ja",
        "/ja/hoshi",
        "星を見る会",
        [
            "毎月、新月の夜に丘の上で星を見る会が開かれる。望遠鏡をのぞくと土星の輪がはっきり見える。",
            "子どもたちは流れ星を数え、大人たちは温かいみそ汁を飲む。",
        ],
    ),
];

pub(super) fn fill(draft: &mut Draft) {
    let mut links = Vec::new();
    for (at, (language, path, title, paragraphs)) in LETTERS.into_iter().enumerate() {
        let (_, next, next_title, _) = LETTERS[(at + 1) % LETTERS.len()];
        let around = vec![Link::to("/", "World"), Link::to(next, next_title)];
        let mut html = styled(title, paragraphs.map(str::to_owned).to_vec(), around);
        html.language = language;
        paragraphs[0].clone_into(&mut html.description);
        draft.page(&Place::new(WORLD, path), &html, None);
        links.push(Link::to(path, title));
    }
    let lead = "Letters from abroad, in French, German and Japanese: on bread, trains, harbours and stars.";
    draft.page(&Place::new(WORLD, "/"), &styled("Letters from abroad", vec![lead.to_owned()], links), None);
}
