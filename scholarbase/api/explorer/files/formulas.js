// Texts with formulas in TeX, drawn as MathML. A formula with an unknown command is shown as it is written, and a text that
// is not TeX as the server reads it.

import { h, highlighted } from "./dom.js";

const NS = "http://www.w3.org/1998/Math/MathML";
const FORMULA = /\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]/gs;
const MARKUP = /<\/?[a-z]|&#?\w+;/i; // only the server reads it
const names = (text) => Object.fromEntries(text.trim().split(/\s+/).map((pair) => pair.split(":")));
const LETTERS = names(`alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε eps:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ
  varkappa:ϰ lambda:λ mu:μ nu:ν xi:ξ pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ
  omega:ω Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω ell:ℓ hbar:ℏ infty:∞ partial:∂
  nabla:∇ emptyset:∅ varnothing:∅ aleph:ℵ Re:ℜ Im:ℑ wp:℘ imath:ı jmath:ȷ R:ℝ N:ℕ Z:ℤ Q:ℚ C:ℂ top:⊤ bot:⊥ Box:□ square:□
  triangle:△ AA:Å`);
const OPERATORS = names(`times:× cdot:· div:÷ pm:± mp:∓ to:→ ra:→ rightarrow:→ longrightarrow:⟶ leftarrow:← gets:← leftrightarrow:↔
  Rightarrow:⇒ implies:⟹ Longrightarrow:⟹ Leftarrow:⇐ Leftrightarrow:⇔ iff:⟺ mapsto:↦ hookrightarrow:↪ leadsto:⇝ uparrow:↑
  downarrow:↓ le:≤ leq:≤ leqslant:≤ ge:≥ geq:≥ geqslant:≥ ll:≪ gg:≫ lesssim:≲ gtrsim:≳ ne:≠ neq:≠ equiv:≡ sim:∼ simeq:≃ approx:≈
  cong:≅ asymp:≍ doteq:≐ triangleq:≜ propto:∝ prec:≺ succ:≻ preceq:⪯ succeq:⪰ subset:⊂ subseteq:⊆ subsetneq:⊊ supset:⊃ supseteq:⊇
  in:∈ ni:∋ notin:∉ cup:∪ cap:∩ uplus:⊎ sqcup:⊔ setminus:∖ backslash:∖ smallsetminus:∖ oplus:⊕ ominus:⊖ otimes:⊗ odot:⊙ wedge:∧
  land:∧ vee:∨ lor:∨ neg:¬ lnot:¬ ast:∗ star:⋆ circ:∘ bullet:• diamond:⋄ Diamond:◇ prime:′ dagger:† dag:† perp:⊥ parallel:∥ mid:∣
  nmid:∤ vert:| lvert:| rvert:| Vert:‖ lVert:‖ rVert:‖ langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉ lbrace:{ rbrace:}
  lbrack:[ rbrack:] ldots:… dots:… dotsc:… dotsb:⋯ cdots:⋯ vdots:⋮ ddots:⋱ sum:∑ prod:∏ coprod:∐ int:∫ iint:∬ oint:∮ bigcup:⋃
  bigcap:⋂ bigoplus:⨁ bigotimes:⨂ bigwedge:⋀ bigvee:⋁ forall:∀ exists:∃ nexists:∄ models:⊨ vdash:⊢ ltimes:⋉ rtimes:⋊ nearrow:↗ searrow:↘
  bowtie:⋈ sqsubseteq:⊑ trianglelefteq:⊴ lt:< gt:> colon:: coloneqq:≔ degree:° angle:∠ textdegree:° sharp:♯ flat:♭ lhd:⊲ rhd:⊳`);
const ACCENTS = names(`hat:^ widehat:^ tilde:~ widetilde:~ bar:¯ overline:¯ dot:˙ ddot:¨ vec:→ overrightarrow:→ check:ˇ breve:˘ acute:´
  grave:\` mathring:˚`);
const UNDER = names("underline:_ underbrace:⏟ underbar:_");
const FUNCTIONS = new Set(`arccos arcsin arctan arg argmax argmin bmod cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim
  liminf limsup ln log max min mod Pr rank sec sgn sin sinh sup tan tanh tr`.split(/\s+/));
const UPRIGHT = new Set(["mathrm", "text", "textrm", "textsf", "textup", "textnormal", "mbox", "hbox", "operatorname", "rm", "sf", "mathop"]);
// The first capital and small letter and digit of an alphabet (Unicode, Mathematical Alphanumeric Symbols), and the letters
// that are elsewhere.
const SCRIPT = [0x1d49c, 0x1d4b6, 0, { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" }];
const BOLD = [0x1d400, 0x1d41a, 0x1d7ce, {}];
const ALPHABETS = { mathbf: BOLD, bf: BOLD, bm: BOLD, boldsymbol: BOLD, textbf: BOLD, mathcal: SCRIPT, mathscr: SCRIPT, cal: SCRIPT,
  mathfrak: [0x1d504, 0x1d51e, 0, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }], mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2, {}],
  mathtt: [0x1d670, 0x1d68a, 0x1d7f6, {}], texttt: [0x1d670, 0x1d68a, 0x1d7f6, {}], tt: [0x1d670, 0x1d68a, 0x1d7f6, {}],
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }] };
Object.assign(ALPHABETS, { Bbb: ALPHABETS.mathbb, frak: ALPHABETS.mathfrak });
const AS_IT_IS = new Set(["mathit", "textit", "emph", "it", "em", "textsl", "mathnormal", "ensuremath"]);
const SWITCHES = new Set(["rm", "bf", "it", "em", "cal", "sf", "tt"]); // for the rest of their group
const DROPPED = new Set(`left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle
  scriptstyle limits nolimits nonumber mathord mathrel mathbin`.split(/\s+/));
const SPACE = /^[,;:> ]$|^q?quad$|^hspace$|^thinspace$/;
const MARKS = { "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307", u: "\u0306",
  v: "\u030c", H: "\u030b", c: "\u0327", r: "\u030a", k: "\u0328", d: "\u0323", b: "\u0331" };
const SPECIAL = names("ss:ß o:ø O:Ø l:ł L:Ł ae:æ AE:Æ oe:œ OE:Œ aa:å AA:Å i:i j:j textregistered:® copyright:© S:§ textendash:– LaTeX:LaTeX TeX:TeX");

function element(tag, ...children) {
  const made = document.createElementNS(NS, tag);
  made.append(...children);
  return made;
}

class Unknown extends Error {}

// Reads a formula from left to right; its methods return elements.
class Reader {
  constructor(tex) {
    this.tokens = tex.match(/\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\s+|./gsu) ?? [];
    this.at = 0;
  }

  row(end = null) {
    const parts = [];
    for (;;) {
      const token = this.tokens[this.at];
      if (token === undefined || token === end) {
        if (token !== end && end !== null) throw new Unknown();
        this.at += 1;
        return element("mrow", ...parts);
      }
      const name = token.slice(1);
      if (token === "\\over" || token === "\\choose") {
        this.at += 1;
        const pair = element("mfrac", element("mrow", ...parts), this.row(end));
        return name === "over" ? pair : binomial(pair);
      }
      if (token[0] === "\\" && SWITCHES.has(name)) {
        this.at += 1;
        return element("mrow", ...parts, inFont(name, this.row(end)));
      }
      const base = /^[_^']$/.test(token) ? element("mrow") : this.atom();
      if (base) parts.push(this.scripts(base));
    }
  }

  scripts(base) {
    let low = null, high = null;
    for (let token = this.peek(); /^([_^']|\\(no)?limits)$/.test(token ?? ""); token = this.peek()) {
      this.at += 1;
      if (token[0] === "\\") continue;
      const found = token === "'" ? element("mo", "′") : this.argument();
      if (token === "_") low = low ? element("mrow", low, found) : found;
      else high = high ? element("mrow", high, found) : found;
    }
    if (low && high) return element("msubsup", base, low, high);
    if (low) return element("msub", base, low);
    return high ? element("msup", base, high) : base;
  }

  peek() {
    while (/^\s+$/.test(this.tokens[this.at] ?? "")) this.at += 1;
    return this.tokens[this.at];
  }

  argument() {
    this.peek();
    const found = this.atom();
    if (!found) throw new Unknown();
    return found;
  }

  // The text up to the brace that closes the next group.
  words() {
    if (this.peek() !== "{") return this.argument().textContent;
    let depth = 0, text = "";
    do {
      const token = this.tokens[this.at++];
      if (token === undefined) throw new Unknown();
      depth += token === "{" ? 1 : token === "}" ? -1 : 0;
      if (token[0] === "\\" && /[A-Za-z]/.test(token)) throw new Unknown();
      text += token === "~" ? "\u00a0" : token.replace(/^[{}]$|^\\/, "");
    } while (depth);
    return text;
  }

  // The next part; null for what is not seen.
  atom() {
    const token = this.tokens[this.at++];
    if (token === undefined || token === "}" || token === "&") throw new Unknown();
    if (token === "{") return this.row("}");
    if (/^\d/.test(token)) return element("mn", token);
    if (/^\s/.test(token)) return null;
    if (token === "~") return element("mtext", "\u00a0");
    if (/^\p{L}$/u.test(token)) return element("mi", token);
    return token[0] === "\\" && token.length > 1 ? this.command(token.slice(1).replace("*", "")) : element("mo", token === "-" ? "−" : token);
  }

  command(name) {
    if (Object.hasOwn(LETTERS, name)) return element("mi", LETTERS[name]);
    if (Object.hasOwn(OPERATORS, name)) return element("mo", OPERATORS[name]);
    if (FUNCTIONS.has(name)) return element("mi", name);
    if (DROPPED.has(name) || name === "!" || name === "/") {
      if (this.peek() === "." && /^left|right$/.test(name)) this.at += 1;
      return null;
    }
    if (SPACE.test(name)) {
      if (name === "hspace") this.words();
      return element("mtext", "\u2009");
    }
    if (/^[{}%&#_$]$/.test(name)) return element("mo", name);
    if (name === "|") return element("mo", "‖");
    if (Object.hasOwn(ACCENTS, name)) return element("mover", this.argument(), element("mo", ACCENTS[name]));
    if (Object.hasOwn(UNDER, name)) return element("munder", this.argument(), element("mo", UNDER[name]));
    if (/^[td]?frac$/.test(name)) return element("mfrac", this.argument(), this.argument());
    if (name === "sqrt") return this.root();
    if (/^[td]?binom$/.test(name)) return binomial(element("mfrac", this.argument(), this.argument()));
    if (name === "pmod") return element("mrow", element("mtext", " (mod "), this.argument(), element("mo", ")"));
    if (/^(overset|stackrel)$/.test(name)) return reversed("mover", this.argument(), this.argument());
    if (name === "underset") return reversed("munder", this.argument(), this.argument());
    if (name === "not") return element("mo", `${this.argument().textContent}\u0338`);
    if (/^(text|mbox|hbox|operatorname)/.test(name)) return inFont(name, element("mtext", this.words()));
    if (UPRIGHT.has(name) || AS_IT_IS.has(name) || Object.hasOwn(ALPHABETS, name)) return inFont(name, this.argument());
    throw new Unknown();
  }

  root() {
    if (this.peek() !== "[") return element("msqrt", this.argument());
    this.at += 1;
    return reversed("mroot", this.row("]"), this.argument());
  }
}

function binomial(pair) {
  pair.setAttribute("linethickness", "0");
  return element("mrow", element("mo", "("), pair, element("mo", ")"));
}

const reversed = (tag, first, second) => element(tag, second, first);

// An element with its letters in a font. Letters alone in upright are one word.
function inFont(name, found) {
  const letters = found.textContent;
  if (UPRIGHT.has(name) && /^\p{L}{2,}$/u.test(letters) && !found.querySelector("msub, msup, msubsup, mfrac")) return element("mi", letters);
  if (AS_IT_IS.has(name)) return found;
  for (const one of found.children.length || !/^m[in]$/.test(found.localName) ? found.querySelectorAll("mi, mn") : [found]) {
    if (UPRIGHT.has(name)) {
      if (one.localName === "mi" && one.textContent.length === 1) one.setAttribute("mathvariant", "normal");
    } else if (Object.hasOwn(ALPHABETS, name)) one.textContent = [...one.textContent].map((letter) => inAlphabet(letter, ALPHABETS[name])).join("");
  }
  return found;
}

function inAlphabet(letter, [capital, small, digit, others]) {
  if (letter in others) return others[letter];
  const [first, start] = /[A-Z]/.test(letter) ? ["A", capital] : /[a-z]/.test(letter) ? ["a", small] : ["0", /\d/.test(letter) ? digit : 0];
  return start ? String.fromCodePoint(start + letter.codePointAt(0) - first.codePointAt(0)) : letter;
}

// What TeX's commands between formulas mean, without emphasis.
function read(text) {
  if (!/[\\{}$<&~`'-]/.test(text)) return text;
  if (MARKUP.test(text)) throw new Unknown();
  const found = text.replace(/\\(?:cite[a-z]*|ref|label|footnote)\*?(?:\[[^\]]*\])?\{[^{}]*\}/g, "")
    .replace(/\\href\{[^{}]*\}/g, "")
    .replace(/\\(?:emph|text(?:it|bf|tt|sc|sf|rm|sl|up|normal)|mbox|url|uline|underline|textcolor\{\w+\})\s*(?=\{)/g, "")
    .replace(/\\(?:it|em|bf|sc|tt|rm|sl|sf|itshape|bfseries|noindent|par|newline|smallskip|bigskip|medskip)(?![A-Za-z])\s*/g, "")
    .replace(/\\(['`^"~=.]|[uvHcrkdb](?=[\s{\\]))\s*\{?\\?([A-Za-z])\}?/g, (_, mark, letter) => (letter + MARKS[mark]).normalize("NFC"))
    .replace(/\\([A-Za-z]+)(?:\{\}|\s+|(?![A-Za-z]))/g, (all, name) => SPECIAL[name] ?? LETTERS[name] ?? OPERATORS[name] ?? all)
    .replace(/\\\\|\\[ ,;:]/g, " ").replace(/(?<!\\)[{}]/g, "").replace(/\\([%&#_{}/-])/g, (_, mark) => (/[/-]/.test(mark) ? "" : mark))
    .replaceAll("---", "\u2014").replaceAll("--", "\u2013").replaceAll("``", "\u201c").replaceAll("''", "\u201d").replaceAll("~", "\u00a0");
  if (/[\\$]/.test(found)) throw new Unknown();
  return found;
}

function formula(written, tex) {
  try {
    return element("math", new Reader(tex).row());
  } catch (error) {
    if (!(error instanceof Unknown)) throw error;
    return h("code", { class: "tex" }, written);
  }
}

// The text with its formulas, and its words marked; null if the server's text is shown.
export function drawn(written, terms = []) {
  if (!written || written.includes("\\$")) return null;
  const parts = [];
  let last = 0;
  try {
    for (const match of written.matchAll(FORMULA)) {
      parts.push(...highlighted(read(written.slice(last, match.index)), terms), formula(match[0], match[1] ?? match[2] ?? match[3]));
      last = match.index + match[0].length;
    }
    parts.push(...highlighted(read(written.slice(last)), terms));
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
  return parts;
}
