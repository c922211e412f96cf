// Texts with formulas in TeX, drawn as MathML. A text with a command that is not known here is shown as plain text.

import { highlighted } from "./dom.js";

const NS = "http://www.w3.org/1998/Math/MathML";
const FORMULA = /\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]/gs;
const OTHER = /[\\{}<&]/; // what only the server reads
const names = (text) => Object.fromEntries(text.trim().split(/\s+/).map((pair) => pair.split(":")));
const GREEK = names(`alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ
  lambda:λ mu:μ nu:ν xi:ξ pi:π rho:ρ varrho:ϱ sigma:σ tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ omega:ω Gamma:Γ Delta:Δ
  Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω ell:ℓ hbar:ℏ infty:∞ partial:∂ nabla:∇ emptyset:∅`);
const OPERATORS = names(`times:× cdot:· pm:± mp:∓ to:→ ra:→ rightarrow:→ leftarrow:← leftrightarrow:↔ Rightarrow:⇒ mapsto:↦ le:≤
  leq:≤ leqslant:≤ ge:≥ geq:≥ geqslant:≥ ll:≪ gg:≫ lesssim:≲ gtrsim:≳ ne:≠ neq:≠ equiv:≡ sim:∼ simeq:≃ approx:≈ cong:≅
  propto:∝ subset:⊂ subseteq:⊆ supset:⊃ in:∈ notin:∉ cup:∪ cap:∩ setminus:∖ oplus:⊕ otimes:⊗ wedge:∧ vee:∨ ast:∗ star:⋆
  circ:∘ bullet:• prime:′ dagger:† perp:⊥ parallel:∥ mid:∣ vert:| Vert:‖ langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉
  ldots:… dots:… cdots:⋯ sum:∑ prod:∏ int:∫ forall:∀ exists:∃ lt:< gt:> colon:: degree:°`);
const ACCENTS = names("hat:^ widehat:^ tilde:~ widetilde:~ bar:¯ overline:¯ dot:˙ ddot:¨ vec:→");
const FUNCTIONS = new Set(`arccos arcsin arctan arg cos cosh cot coth det dim exp gcd inf ker lim liminf limsup ln log max min mod
  Pr rank sin sinh sup tan tanh tr`.split(/\s+/));
const FONTS = new Set(`mathrm mathbf mathit mathsf mathtt mathfrak mathscr mathcal mathbb rm bf it cal bm boldsymbol text textrm
  textit textbf mbox operatorname`.split(/\s+/));
const DROPPED = new Set("left right big Big bigl bigr Bigl Bigr displaystyle textstyle limits nolimits".split(" "));
const SETS = { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ", F: "𝔽", E: "𝔼" };

function element(tag, ...children) {
  const made = document.createElementNS(NS, tag);
  made.append(...children);
  return made;
}

class Unknown extends Error {}

// Reads a formula from left to right; its methods return elements.
class Reader {
  constructor(tex) {
    this.tokens = tex.match(/\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\s+|./gsu) ?? [];
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
      const base = token === "_" || token === "^" ? element("mrow") : this.atom();
      if (base) parts.push(this.scripts(base));
    }
  }

  scripts(base) {
    const found = {};
    for (let token = this.peek(); token === "_" || token === "^" || token === "'"; token = this.peek()) {
      this.at += 1;
      const name = token === "_" ? "low" : "high";
      if (found[name]) throw new Unknown();
      found[name] = token === "'" ? element("mo", "′") : this.argument();
    }
    if (found.low && found.high) return element("msubsup", base, found.low, found.high);
    if (found.low) return element("msub", base, found.low);
    return found.high ? element("msup", base, found.high) : base;
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

  // The next part; null for what is not seen.
  atom() {
    const token = this.tokens[this.at++];
    if (token === undefined || token === "}" || token === "&") throw new Unknown();
    if (token === "{") return this.row("}");
    if (/^\d/.test(token)) return element("mn", token);
    if (/^\s/.test(token)) return null;
    if (/^\p{L}$/u.test(token)) return element("mi", token);
    return token[0] === "\\" && token.length > 1 ? this.command(token.slice(1)) : element("mo", token);
  }

  command(name) {
    if (name in GREEK) return element("mi", GREEK[name]);
    if (name in OPERATORS) return element("mo", OPERATORS[name]);
    if (FUNCTIONS.has(name)) return element("mi", name);
    if (DROPPED.has(name) || name === "!") return null;
    if (/^[,;: ]$|^q?quad$/.test(name)) return element("mtext", "\u2009");
    if (/^[{}%&#_$]$/.test(name)) return element("mo", name);
    if (name in ACCENTS) return element("mover", this.argument(), element("mo", ACCENTS[name]));
    if (/^[td]?frac$/.test(name)) return element("mfrac", this.argument(), this.argument());
    if (name === "sqrt" && this.peek() !== "[") return element("msqrt", this.argument());
    if (FONTS.has(name)) return this.upright(name);
    throw new Unknown();
  }

  // Letters in a font: upright ones, and those of sets.
  upright(name) {
    if (["rm", "bf", "it", "cal"].includes(name)) return null; // for the rest of its group
    const found = this.argument();
    const letters = found.textContent;
    if (name === "mathbb") return element("mi", SETS[letters] ?? letters);
    if (name === "mathit" || !/^[\p{L}\s]+$/u.test(letters) || found.querySelector("msub, msup, msubsup, mfrac")) return found;
    const made = element("mi", letters);
    made.setAttribute("mathvariant", "normal");
    return made;
  }
}

// The text with its formulas, and its words marked; null if it is shown as plain text.
export function drawn(written, terms = []) {
  if (!written || /\\\$/.test(written)) return null;
  const parts = [];
  let last = 0;
  const prose = (text) => {
    const read = text.replace(/\\([%&#_])/g, "$1").replaceAll("---", "\u2014").replaceAll("--", "\u2013").replaceAll("``", "\u201c")
      .replaceAll("''", "\u201d").replaceAll("~", "\u00a0");
    if (OTHER.test(read.replaceAll("& ", "")) || text.includes("$")) throw new Unknown();
    parts.push(...highlighted(read, terms));
  };
  try {
    for (const match of written.matchAll(FORMULA)) {
      prose(written.slice(last, match.index));
      parts.push(element("math", new Reader(match[1] ?? match[2] ?? match[3]).row()));
      last = match.index + match[0].length;
    }
    prose(written.slice(last));
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
  return last ? parts : null;
}
