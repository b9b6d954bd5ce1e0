// Titles of made-up movies: readable, unique, and of words that show a movie's cluster, so that a
// person can see whether recommendations make sense. A title follows from the movie's number, whose
// mixed digits choose noun, adjective, year and form, so that two numbers never give one title.

const NOUNS: readonly (readonly string[])[] = [
  ["Nebula", "Orbit", "Comet", "Starship", "Asteroid", "Galaxy", "Eclipse", "Moonbase"],
  ["Harbor", "Lighthouse", "Tide", "Lagoon", "Captain", "Shipwreck", "Reef", "Anchor"],
  ["Detective", "Alibi", "Witness", "Suspect", "Verdict", "Motive", "Clue", "Ransom"],
  ["Sheriff", "Canyon", "Stagecoach", "Outlaw", "Saloon", "Rodeo", "Prairie", "Gunslinger"],
  ["Wizard", "Dragon", "Castle", "Prophecy", "Amulet", "Kingdom", "Sorceress", "Griffin"],
  ["Kiss", "Wedding", "Letter", "Valentine", "Honeymoon", "Sweetheart", "Serenade", "Proposal"],
  ["Crypt", "Phantom", "Asylum", "Séance", "Poltergeist", "Mausoleum", "Omen", "Revenant"],
  ["Regiment", "Trench", "Armistice", "Bunker", "Convoy", "Brigade", "Battalion", "Outpost"],
  ["Spy", "Cipher", "Embassy", "Defector", "Dossier", "Informant", "Safehouse", "Double Agent"],
  ["Orchestra", "Melody", "Encore", "Tango", "Soprano", "Jukebox", "Ballroom", "Chorus"],
  ["Marathon", "Coach", "Stadium", "Underdog", "Championship", "Boxer", "Goalkeeper", "Relay"],
  ["Puppy", "Stallion", "Penguin", "Otter", "Parrot", "Hedgehog", "Wolfpack", "Kitten"],
  ["Butler", "Neighbour", "Roommate", "Mother-in-Law", "Intern", "Prankster", "Blunder", "Nanny"],
  ["Robot", "Android", "Algorithm", "Cyborg", "Mainframe", "Firewall", "Hologram", "Circuit"],
  ["Glacier", "Volcano", "Rainforest", "Savanna", "Summit", "Desert", "Tundra", "Waterfall"],
  ["Heist", "Vault", "Getaway", "Safecracker", "Forger", "Diamond", "Casino", "Smuggler"],
];
const ADJECTIVES = (
  "Silent Golden Broken Hidden Crimson Distant Forgotten Restless Burning Velvet Hollow Midnight " +
  "Wandering Frozen Emerald Reckless Gentle Shattered Lonely Electric Ancient Scarlet Borrowed " +
  "Fearless Fading Invisible Stolen Crooked Radiant Bitter Secret Endless Clever Savage Paper " +
  "Iron Weeping Lucky Final Second"
).split(" ");
const FORMS: readonly ((adjective: string, noun: string) => string)[] = [
  (adjective, noun) => `The ${adjective} ${noun}`,
  (adjective, noun) => `${adjective} ${noun}`,
  (adjective, noun) => `Return of the ${adjective} ${noun}`,
  (adjective, noun) => `Night of the ${adjective} ${noun}`,
];
const FIRST_YEAR = 1954;
const YEARS = 71;
/** Coprime with every count above, so that neighbouring numbers give titles that look unlike. */
const STRIDE = 7919;

/** Number of clusters; each has nouns of its own. */
export const CLUSTERS: number = NOUNS.length;

/** Cluster of the movie with this number. */
export function clusterOf(movie: number): number {
  return movie % CLUSTERS;
}

/** Title of the movie with this number, unlike that of any other number. */
export function titleOf(movie: number): string {
  const nouns = NOUNS[clusterOf(movie)]!;
  const titles = nouns.length * ADJECTIVES.length * YEARS * FORMS.length;
  const number = Math.floor(movie / CLUSTERS);
  let left = ((number % titles) * STRIDE) % titles;
  const digit = (count: number): number => {
    const value = left % count;
    left = Math.floor(left / count);
    return value;
  };
  const noun = nouns[digit(nouns.length)]!;
  const adjective = ADJECTIVES[digit(ADJECTIVES.length)]!;
  const year = FIRST_YEAR + digit(YEARS);
  const name = FORMS[digit(FORMS.length)]!(adjective, noun);
  const sequel = Math.floor(number / titles);
  return `${name}${sequel === 0 ? "" : ` ${sequel + 1}`} (${year})`;
}
