/** The texts of the page in French. There are no-break spaces before ; : ? ! and inside « », as French typography requires. */
import type { Texts } from "./en";
import { numberFormat } from "./number";

const number = numberFormat("fr");
const plural = (n: number, one: string, many: string) => `${number.count(n)} ${n < 2 ? one : many}`;

export const fr: Texts = {
  number,

  // Page et en-tête
  languageName: "Français",
  pageLanguage: "Langue de la page",
  tagline: "regardez à l’intérieur de votre modèle",
  skipToInput: "Aller à la saisie",
  model: "Modèle",
  targetLanguage: "Traduire vers",
  compareWith: "Comparer avec",
  noModel: "aucun",
  copyLink: "Copier le lien",
  linkCopied: "Copié",
  modelSummary: (id, parameters, width, vocabulary) =>
    `${id} (paramètres : ${number.compact(parameters)} ; largeur : ${number.count(width)} ; vocabulaire : ${number.count(vocabulary)} jetons)`,
  labelled: (label, detail) => `${label} : ${detail}`,
  computing: "Calcul en cours",
  unreachable: "Le serveur ne répond pas.",
  accessTokenRequired: "Ce serveur exige un jeton d’accès.",
  accessToken: "Jeton d’accès",
  signIn: "Se connecter",
  signOut: "Se déconnecter",

  // Saisie
  sentence: "Texte",
  prompt: "Début du texte",
  image: "Image",
  imageHint: "Choisissez un fichier ou déposez-le ici. Le fichier reste dans votre navigateur ; seuls les pixels utilisés par le modèle sont envoyés.",
  imageCropped: (size) => `Le modèle voit le carré central de l’image, réduit à ${size} × ${size} pixels.`,
  imageNotInLink: "Un lien reproduit tout ce qui est sélectionné sur cette page, sauf l’image.",
  unreadableImage: "Le navigateur ne peut pas lire ce fichier comme une image.",
  examples: "Exemples",
  translate: "Traduire",
  continueText: "Continuer",
  describeImage: "Décrire l’image",
  beam: "Largeur du faisceau",
  penalty: "Pénalité de longueur",
  modelDefault: "défaut",
  modelDefaultHint: "Videz ce champ pour utiliser le réglage propre au modèle.",

  // Sortie
  translation: "Traduction",
  generatedText: "Texte",
  caption: "Légende",
  waitingForText: "Saisissez une phrase, puis appuyez sur Entrée.",
  waitingForImage: "Choisissez une image, puis cliquez sur « Décrire l’image ».",
  emptyOutput: "(vide)",
  shownSentence: "Phrase affichée ci-dessous",
  unknownWords: (words: string) => `Absents des données d’apprentissage\u00a0: ${words}`,
  score: "score",
  logProb: "log p",
  alternatives: "Autres hypothèses",
  changes: "Modifications :",
  forcedTokens: (n) => plural(n, "jeton imposé", "jetons imposés"),
  hiddenTokens: (n) => plural(n, "jeton source masqué", "jetons source masqués"),
  headsOff: (heads) => `têtes désactivées : ${heads}`,
  undoAll: "Tout annuler",

  // Jetons
  tokens: "Jetons",
  tokensHintHide: "Cliquez sur un jeton source pour le masquer au modèle, ou sur un jeton de sortie pour sélectionner son étape.",
  tokensHint: "Cliquez sur un jeton de sortie pour sélectionner son étape.",
  source: "Source",
  output: "Sortie",
  hideToken: (token) => `Masquer ${token} au modèle`,
  stepToken: (token, step) => `Étape ${step} : ${token}`,
  forced: "imposé",
  merges: "Comment les mots deviennent des jetons",
  mergesHint: "Le codage par paires d’octets (BPE) part des caractères et fusionne les paires apprises, dans l’ordre où il les a apprises.",
  noMerges: "Ce découpage en jetons ne fusionne pas de paires.",
  mergesApplied: "Fusions effectuées",
  replay: "Rejouer",

  // Attention
  heads: "Têtes d’attention",
  headsHint: "Les lignes sont les couches, les colonnes les têtes. Chaque petite carte a une ligne par requête et une colonne par clé.",
  headsHintImage: "Les lignes sont les couches, les colonnes les têtes. Chaque image est claire là où la tête porte son attention à l’étape sélectionnée.",
  encoder: "Encodeur",
  decoder: "Décodeur",
  cross: "Attention croisée",
  layer: "couche",
  head: "tête",
  mean: "moyenne",
  meanOfHeads: "moyenne des têtes",
  headOff: "désactivée",
  noAttention: "Ce modèle n’a pas d’attention à afficher.",
  attention: "Attention",
  attentionOf: (head) => `Attention, ${head}`,
  view: "Affichage",
  matrix: "Matrice",
  links: "Liens",
  minimumWeight: "Poids minimal",
  showSpecials: "Jetons spéciaux",
  switchOff: "Désactiver la tête d’attention",
  switchOn: "Réactiver la tête d’attention",
  step: "Étape",
  position: "Position",
  nextStep: "(jeton suivant)",
  attendsTo: (query, key, weight) => `attention de ${query} vers ${key} : ${number.decimal(weight)}`,
  pointAtCell: "Pointez une case ou utilisez les flèches ; Entrée sélectionne la ligne.",
  region: (row, column) => `ligne ${row}, colonne ${column}`,
  pointAtRegion: "Pointez une région ou utilisez les flèches.",
  allSteps: "moyenne sur toutes les étapes",
  brightnessScale: (maximum) => `luminosité ∝ poids ; maximum sur toutes les étapes : ${number.decimal(maximum, 2)}`,
  colourScale: "intensité de la couleur ∝ √poids",
  queries: "requêtes",
  keys: "clés",
  asTable: "Afficher en tableau",
  linksLimited: (n) => `seuls les ${number.count(n)} liens les plus forts sont tracés`,
  compareSentence: "Deux modèles, une même phrase",
  compareImage: "Deux modèles, une même image",
  compareHint: "La tête sélectionnée, ou la plus proche dont l’autre modèle dispose.",

  // Jeton suivant
  next: "Jeton suivant",
  nextHint: "Cliquez sur un jeton pour l’imposer à cette étape ; le modèle continue à partir de là.",
  temperature: "Température",
  topK: "Top-k (0 = tous)",
  topP: "Top-p",
  after: "après",
  atStart: "au début de la sortie",
  otherTokens: "autres jetons",
  chosen: "choisi",
  filteredOut: "écarté",
  entropy: (bits) => `entropie : ${number.decimal(bits, 3)} bits`,
  forceToken: (token, p) => `Imposer ${token}, probabilité ${number.percent(p)}`,

  // Recherche en faisceau
  search: "Recherche en faisceau",
  searchHint: "Sélectionnez une hypothèse pour voir son attention et les jetons qui pourraient la suivre.",
  noSearch: "Aucune recherche n’a été effectuée.",
  showPruned: "Afficher les hypothèses élaguées",
  backToBest: "Revenir à la meilleure hypothèse",
  hypothesisTree: "Arbre des hypothèses",
  states: { kept: "conservée", pruned: "élaguée", ended: "terminée" },
  candidate: (token, state, logProb, score) =>
    `${token} ${number.decimal(score, 2)} : ${state} ; log p ${number.decimal(logProb, 3)} ; score normalisé ${number.decimal(score, 3)}`,
  node: "nœud",
  parent: "parent",
  state: "état",

  // Cache de clés et de valeurs
  cache: "Cache de clés et de valeurs",
  cacheHint: "Les clés et les valeurs des jetons précédents sont conservées au lieu d’être recalculées.",
  noCache: "Ce modèle ne conserve ni clés ni valeurs.",
  bytesPerToken: "octets par jeton",
  bytesInAll: (tokens) => `octets pour ${plural(tokens, "jeton", "jetons")}`,
  withoutCache: "multiplications pour les clés et les valeurs sans le cache",
  withCache: (ratio) => `avec le cache : ${number.decimal(ratio, 1)} fois moins`,

  // Leçon
  lecture: "Une requête, étape par étape",
  lectureHint: "Ces nombres sont ceux de la tête et de la requête sélectionnées. La page les recalcule à partir de q, K et V et les compare à ceux du serveur.",
  lectureMean: "La moyenne des têtes n’a pas de q, k, v ; la tête 0 est affichée à la place.",
  difference: "écart avec le serveur : max |Δ| =",
  previous: "Précédent",
  following: "Suivant",
  lectureSteps: ["Plongement", "q, k, v", "q · k", "÷ √d", "Masque", "Softmax", "Σ α v", "Sortie"],
  lectureText: {
    embedToken: (token, position, width) =>
      `La requête provient de ${token}, à la position ${position}. Son plongement et sa position donnent un vecteur x de ${number.count(width)} nombres.`,
    embedRegion: (region, width) =>
      `La requête provient de la région ${region} de l’image. Ses pixels et sa position donnent un vecteur x de ${number.count(width)} nombres.`,
    embedRead: (token, position, width, output) =>
      `À l’étape qui produit ${output}, le dernier jeton lu est ${token}, à la position ${position}. Son plongement et sa position donnent un vecteur x de ${number.count(width)} nombres, à partir duquel la requête est calculée.`,
    embedAbove: (token, layer) =>
      `La requête provient de ${token}. Dans la couche ${layer}, son vecteur x est la sortie de la couche précédente.`,
    embedCross: (token, keys) =>
      `La requête provient du vecteur x du décodeur à l’étape qui produit ${token}. Les clés et les valeurs proviennent des ${number.count(keys)} vecteurs de sortie de l’encodeur.`,
    rnn: {
      output: {
        embed: (token) =>
          `La requête est l’état du décodeur juste avant qu’il produise ${token}. Les clés sont les états de l’encodeur.`,
        project: (width, keys) =>
          `L’état du décodeur, un vecteur de ${number.count(width)} nombres, est la requête. Les ${number.count(keys)} états de l’encodeur servent à la fois de clés et de valeurs.`,
        output: "La sortie de l’attention et l’état du décodeur prédisent ensemble le jeton suivant.",
      },
      input: {
        embed: (token, read) =>
          `À l’étape qui produit ${token}, la requête réunit deux vecteurs : l’état du décodeur avant cette étape et le plongement de ${read}, le dernier jeton lu. Les clés sont les états de l’encodeur.`,
        project: (width, keys) =>
          `Réunis, ils forment la requête, un vecteur de ${number.count(width)} nombres. Les ${number.count(keys)} états de l’encodeur servent à la fois de clés et de valeurs.`,
        output:
          "Le plongement du dernier jeton lu et la sortie de l’attention donnent l’entrée z du RNN. Son nouvel état prédit à lui seul le jeton suivant.",
      },
    },
    project: (width, keys) =>
      `Trois matrices calculent la requête q ainsi que ${plural(keys, "clé et sa valeur", "clés et leurs valeurs")}, chacune sous forme d’un vecteur de ${number.count(width)} nombres.`,
    product: "Chaque clé correspond-elle bien à la requête ? Le produit scalaire est grand lorsque les deux vecteurs pointent dans la même direction.",
    serverScores: (score) =>
      `La fonction de score « ${score} » a ses propres paramètres, qui restent sur le serveur. Ses scores sont affichés tels que le serveur les a calculés.`,
    scale: (width, scale) =>
      `Les produits scalaires de vecteurs de ${number.count(width)} nombres croissent comme √${width}. La multiplication par ${number.decimal(scale)} compense cet effet et évite que la softmax ne sature.`,
    noScale: "Cette fonction de score ne met pas ses scores à l’échelle.",
    bias: "Un biais qui dépend de la distance est ajouté à chaque score.",
    gaussian:
      "L’attention locale porte sur une fenêtre de clés. b transforme les scores en logarithmes de poids : on soustrait le logarithme de la somme de la fenêtre, puis (j − p)² / 2σ² selon la distance de la clé j au centre p.",
    causal: "Cette attention est causale : une requête ne peut pas porter sur des positions ultérieures.",
    mask: (masked) =>
      masked ? `${plural(masked, "clé est masquée : son score devient", "clés sont masquées : leurs scores deviennent")} −∞.` : "Aucune clé n’est masquée ici.",
    softmax: (max, sum) =>
      `On soustrait d’abord le maximum (${number.decimal(max)}) pour éviter un dépassement de capacité dans l’exponentielle. La somme des exponentielles vaut ${number.decimal(sum)}.`,
    share: (share) =>
      `Cette tête porte aussi son attention sur d’autres clés, qui ont leur propre carte. Les clés affichées ici reçoivent ${number.percent(share)} de son poids.`,
    normalisers: {
      hardmax: "Cette tête n’utilise pas la softmax : la clé au plus grand score reçoit tout le poids.",
      sum: "Cette tête n’utilise pas la softmax : chaque score est divisé par la somme des scores.",
      none: "Cette tête ne normalise pas : les scores sont eux-mêmes les poids.",
      exp: "Les scores sont déjà des logarithmes de poids : l’exponentielle donne les poids. Leur somme peut être inférieure à 1.",
    },
    otherNormaliser: (name) =>
      `Cette tête normalise ses scores par « ${name} » au lieu de la softmax. Ses poids sont affichés tels que le serveur les a calculés.`,
    sum: "Chaque valeur est multipliée par son poids, et les produits sont additionnés. C’est la sortie de la tête pour cette requête.",
    projectOutput: (heads) =>
      heads === 1
        ? "La sortie de la tête est multipliée par la matrice de sortie et ajoutée à x. Le résultat passe dans la suite de la couche."
        : `Les sorties des ${heads} têtes sont concaténées, multipliées par la matrice de sortie et ajoutées à x. Le résultat passe dans la suite de la couche.`,
    predicts: (token, p) => `Au bout du compte, le jeton suivant le plus probable est ${token}, avec une probabilité de ${number.decimal(p)}.`,
  },
  formulaWords: { region: "région", layer: "couche", below: "dessous", masked: "masqué", score: "score" },
  mask: "masque",
  token: "jeton",
  more: (n) => `et ${number.count(n)} de plus`,
  showAllNumbers: (n) => `Afficher les ${number.count(n)} nombres`,

  // Fichiers
  save: "Enregistrer",
  saveAs: (format, subject) => `Enregistrer ${subject} en ${format}`,
};
