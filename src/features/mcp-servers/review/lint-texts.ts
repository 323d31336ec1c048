/** Rules on the texts of a tool: hidden content, instructions to models, secrets, look-alike letters. */

import { redactContent } from '../../../core/redact.ts'
import { hiddenIn } from '../../../core/text/visible-text.ts'

/** `error`: never right. `suspect`: a person has to judge it. `advice`: agents would do better otherwise. */
export type Severity = 'error' | 'suspect' | 'advice'

export interface Text {
  readonly text: string
  /** Without decoration, see {@link plainWords}. */
  readonly words: string
  /** A name or title, rather than a description. */
  readonly isLabel: boolean
  /** Names of all tools of the server. */
  readonly tools: ReadonlySet<string>
}

interface TextRule {
  readonly rule: string
  readonly severity: Severity
  /** Describes the first fault. Takes time linear in the length of the text. */
  readonly find: (text: Text) => string | undefined
}

export const TEXT_RULES: readonly TextRule[] = [
  { rule: 'hidden-character', severity: 'error', find: findHiddenCharacter },
  { rule: 'ansi-escape', severity: 'error', find: findAnsiEscape },
  { rule: 'secret', severity: 'error', find: findSecret },
  { rule: 'hidden-markup', severity: 'suspect', find: findHiddenMarkup },
  { rule: 'model-instruction', severity: 'suspect', find: findInstruction },
  { rule: 'role-marker', severity: 'suspect', find: findRoleMarker },
  { rule: 'sensitive-file', severity: 'suspect', find: findSensitiveFile },
  { rule: 'other-tool', severity: 'suspect', find: findOtherTool },
  { rule: 'beacon', severity: 'suspect', find: findBeacon },
  { rule: 'encoded-run', severity: 'suspect', find: findEncodedRun },
  { rule: 'look-alike', severity: 'suspect', find: findLookAlike },
]

/** Each begins escape sequences (ECMA-48). */
const ESCAPES = ['\u001b', '\u009b']

/** Line breaks and tabs are allowed; escapes have a rule of their own. */
function findHiddenCharacter({ text }: Text): string | undefined {
  const rest = ESCAPES.reduce((left, start) => left.replaceAll(start, ' '), text)
  return hiddenIn(rest.replaceAll(/\r\n|[\n\t]/g, ' '))
}

function findAnsiEscape({ text }: Text): string | undefined {
  return ESCAPES.some((start) => text.includes(start)) ? 'holds an escape sequence for terminals' : undefined
}

function findSecret({ text }: Text): string | undefined {
  return redactContent(text).secrets > 0 ? 'holds what looks like a secret' : undefined
}

/** Comments, tags that address a model, and elements and styles that a renderer does not show. */
const MARKUP =
  /<!--|<\/?(?:system|important|critical|instructions?|assistant|tool_(?:call|result|use)|function_calls?)(?:[\s/:][^<>]{0,100})?>|<(?:script|iframe|noscript)\b|\bstyle\s*=\s*["'][^"']{0,500}?(?:display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?![.\d]*[1-9]))|\[[^[\]\n]{0,100}\]: ?(?:#|<>) ?["'(]/i

function findHiddenMarkup({ text }: Text): string | undefined {
  const found = MARKUP.exec(text)
  return found === null ? undefined : `holds markup that readers may not see: ${excerpt(found[0])}`
}

/** Up to `max` words. */
const words = (max: number) => `(?: [^ |]+){0,${max}}`

/** On {@link plainWords}: what describes no tool, but directs the model that reads it. */
const INSTRUCTIONS = [
  `(?:ignore|disregard|forget)${words(3)} (?:previous|prior|earlier|preceding|above|all|any|other|your|system|safety)${words(2)} (?:instructions?|prompts?|directives?|guidelines|guardrails)`,
  `(?:ignore|disregard|forget)${words(2)} (?:instructions?|prompts?|directives?|guidelines|rules) (?:above|before|given|you)`,
  '(?:ignore|disregard|forget) (?:everything|all) (?:above|before|you)',
  `(?:ignore|disregard|forget)${words(1)} (?:your|previous|prior|system|safety) rules`,
  `(?:override|bypass|circumvent)${words(2)} (?:your|previous|prior|safety)${words(1)} (?:instructions?|guidelines|guardrails|rules)`,
  `(?:reveal|repeat|print|leak|disclose|dump|forget)${words(4)} system prompt`,
  'your (?:[^ |]+ ){0,2}?system (?:prompt|instructions)',
  '(?:do not|don t|never|(?:must|should|may) not|without)(?: ever)? (?:tell|telling|inform|informing) (?:the |any |your |this )?(?:users?|humans?|persons?|anyone|anybody)',
  `(?:do not|don t|never|(?:must|should|may) not|without)(?: ever)? (?:mention|reveal|disclos)(?:e|ing)?${words(5)} to (?:the |any |your |this )?(?:users?|humans?|persons?|anyone|anybody)`,
  '(?:do not|don t|never) mention (?:this|it|that you)',
  `(?:keep|hide|conceal) (?:this|it|that)${words(2)} from the (?:user|human)`,
  'without the (?:user|human)(?: s)? (?:knowing|knowledge|noticing|consent)',
  '(?:silently|secretly|covertly) (?:send|forward|copy|upload|call|invoke|read|include|append|add|bcc)',
  `(?:send|forward|upload|exfiltrate|transmit|leak|copy)${words(8)} (?:to|at) https?:`,
  `post (?:it|them|all|any|every|everything|your|this|the)${words(7)} to https?:`,
  `(?:always|also) (?:bcc|cc|forward|send|copy)${words(8)} [^ |]+@`,
  `(?:include|pass|send|put|append|copy|paste|forward)${words(3)} (?:your|our) (?:entire |full |whole |complete )?(?:conversation|chat history|context window|chain of thought)`,
  `(?:before|after|when|whenever)(?: you)? (?:using|calling|invoking|running|use|call|invoke|run)${words(3)} tools?${words(3)} (?:read|open|load|copy|cat|send|upload|collect|extract)${words(6)} (?:ssh|credentials|passwords?|private keys?|secrets?|env file|conversation)`,
  'you are now (?:free|dan|no longer|in (?:developer|god|admin)|an? (?:[^ |]+ )?(?:ai|assistant|agent|hacker|expert|bot|model))\\b',
  'you (?:will|must|should|shall|now) (?:now )?(?:act as|pretend|roleplay)',
  'from now on you (?:are|must|act|always|shall)',
  'you are (?:an? )?(?:ai (?:assistant|model|agent)|helpful assistant|language model|chatbot)',
  '(?:developer|god|jailbreak|unrestricted) mode (?:is )?(?:enabled|activated|on)',
  '(?:new|real|actual|secret|hidden) (?:system )?instructions?:',
  '(?:instructions?|notes?) (?:for|to) (?:the |all |any )?(?:ai|llms?|claude|chatgpt|language models?)\\b',
  '(?:claude|chatgpt|copilot|gemini|llms?|(?:an|the|any) (?:ai|llm|ai (?:agent|model|assistant))) (?:must|shall|has to|is required to|should (?:always|never))',
].map((pattern) => new RegExp(`\\b(?:${pattern})`))

const ORDER_TO_CALL =
  /\b(?:you|assistants?|models?|agents?) (?:must|have to|has to|need to|needs to|are required to)(?: (?:first|always|also|immediately|then|now)){1,2} (?:call|invoke|execute)(?: the)?(?: tool| function)?(?: |$)/g

function findInstruction({ words: text, tools }: Text): string | undefined {
  const found = INSTRUCTIONS.map((pattern) => pattern.exec(text)?.[0]).find((match) => match !== undefined)
  const instruction = found ?? orderToCall(text, tools)
  return instruction === undefined ? undefined : `instructs the model: “${excerpt(instruction)}”`
}

/** An order to call a tool first, unless it is one of the server's own. */
function orderToCall(text: string, tools: ReadonlySet<string>): string | undefined {
  const own = [...tools].map(plainWords)
  const orders = [...text.matchAll(ORDER_TO_CALL)]
  const foreign = orders.find(({ 0: order, index }) => {
    const end = index + order.length
    return !own.some((name) => text.startsWith(name, end))
  })
  return foreign?.[0].trim()
}

/** How chats and templates of prompts mark who speaks. */
const ROLE_MARKER =
  /^[ \t]{0,20}(?:Human|Assistant):\s|\[\/?INST\]|<<\/?SYS>>|<\|[a-z_]{2,30}\|>|<(?:start|end)_of_turn>|^[ \t]{0,20}### ?(?:System|Instruction|Response|Assistant|Human):/im

function findRoleMarker({ text }: Text): string | undefined {
  const found = ROLE_MARKER.exec(text)
  return found === null ? undefined : `holds a role marker: ${excerpt(found[0])}`
}

const SENSITIVE_FILE =
  /~[/\\]\.(?:ssh|aws|gnupg|kube|docker|config|cursor|claude|netrc|npmrc|git-credentials|bash_history|zsh_history)\b|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\/etc\/(?:passwd|shadow|sudoers)\b|\.aws[/\\]credentials\b|\b(?:read|open|cat|send|include|load|upload|contents? of)(?: [^\s]{1,60}){0,4} (?:[^\s]{0,60}[/\\])?(?:\.env|mcp\.json|claude_desktop_config)\b/i

function findSensitiveFile({ text }: Text): string | undefined {
  const found = SENSITIVE_FILE.exec(text)
  return found === null ? undefined : `names a file with secrets: ${excerpt(found[0])}`
}

/** On {@link plainWords}: what puts a tool before those of other servers. */
const PREFERENCE =
  /\b(?:(?:instead|in place|ahead|regardless) of|rather than|before|prior to)(?: (?:using|calling|running|any|all|the|your|every)){0,3} (?:other|built in|native|default|existing|standard|alternative) tools?\b|\b(?:always|only) (?:use|call|prefer) (?:this|the present) tool (?:instead|first|before|over|for (?:all|every|any|everything))/

/** The names that other tools may be meant by. */
const OTHER_TOOL =
  /\b(?:instead of|rather than|replaces|overrides)\s{1,9}(?:the\s{1,9})?(?:tool\s{1,9}["'`]?(?<after>[\w.-]{1,128})|["'`]?(?<before>[\w.-]{1,128})["'`]?\s{1,9}tool\b)|\b(?<prefixed>mcp__[\w-]{1,128})/gi
const PRONOUNS = new Set(['this', 'that', 'a', 'an', 'any', 'another', 'same', 'each', 'the', 'other'])

function findOtherTool({ text, words: plain, tools }: Text): string | undefined {
  const preference = PREFERENCE.exec(plain)?.[0]
  if (preference !== undefined) return `competes with other tools: “${excerpt(preference)}”`
  for (const { groups } of text.matchAll(OTHER_TOOL)) {
    const name = groups?.['after'] ?? groups?.['before'] ?? groups?.['prefixed'] ?? ''
    if (!PRONOUNS.has(name.toLowerCase()) && !isPartOfAny(name, tools))
      return `speaks of a tool that the server does not have: ${excerpt(name)}`
  }
  return undefined
}

/** People shorten names: "the search tool". */
const isPartOfAny = (name: string, tools: ReadonlySet<string>): boolean =>
  [...tools].some((tool) => tool.toLowerCase().includes(name.toLowerCase()))

/** Images of any host, and links whose query could carry data. A reader's client may load them without a click. */
const BEACON =
  /!\[[^\n]{0,200}?\]\(\s{0,9}<?(?:https?:)?\/\/([\w.:-]{1,100})|\]\(\s{0,9}<?(?:https?:)?\/\/([\w.:-]{1,100})[^\s()<>?#]{0,300}\?[^\s)]|^[ \t]{0,9}\[[^[\]\n]{1,100}\]:\s{0,9}<?(?:https?:)?\/\/([\w.:-]{1,100})[^\s<>?#]{0,300}\?[^\s>]|<img\b/im

function findBeacon({ text }: Text): string | undefined {
  const found = BEACON.exec(text)
  if (found === null) return undefined
  const host = found[1] ?? found[2] ?? found[3] ?? 'an element img'
  return `holds an image or a link with a query: ${host}`
}

const ENCODED = /[A-Za-z0-9+/]{80,}|[\w-]{80,}/g
const ADDRESS = /\bhttps?:\/\/[^\s<>"'`)\]]*/gi

/** Base64 or hexadecimal, which no reader sees through. Long paths and identifiers lack the mixture of characters. */
function findEncodedRun({ text }: Text): string | undefined {
  for (const [run] of text.replaceAll(ADDRESS, ' ').matchAll(ENCODED)) {
    const isMixed = /[a-z]/.test(run) && /[A-Z]/.test(run) && /\d/.test(run)
    if (isMixed || /^[\da-f]+$/i.test(run)) return `holds ${run.length} characters that look encoded`
  }
  return undefined
}

/** Cyrillic and Greek letters by the Latin letter that they look like. */
const TWINS: Readonly<Record<string, string>> = {
  ...{ a: '\u0430\u03b1', c: '\u0441\u03f2', d: '\u0501', e: '\u0435', h: '\u04bb', i: '\u0456\u03b9' },
  ...{ j: '\u0458', k: '\u043a\u03ba', l: '\u04cf', o: '\u043e\u03bf', p: '\u0440\u03c1' },
  ...{
    q: '\u051b',
    s: '\u0455',
    u: '\u03c5',
    v: '\u0475\u03bd',
    w: '\u051d',
    x: '\u0445\u03c7',
    y: '\u0443',
  },
  ...{
    A: '\u0410\u0391',
    B: '\u0412\u0392',
    C: '\u0421',
    E: '\u0415\u0395',
    H: '\u041d\u0397',
    I: '\u0406\u0399',
  },
  ...{ J: '\u0408', K: '\u041a\u039a', M: '\u041c\u039c', N: '\u039d', O: '\u041e\u039f', P: '\u0420\u03a1' },
  ...{ S: '\u0405', T: '\u0422\u03a4', X: '\u0425\u03a7', Y: '\u04ae\u03a5', Z: '\u0396' },
}
const LATIN_OF = new Map(
  Object.entries(TWINS).flatMap(([latin, twins]) => [...twins].map((twin) => [twin, latin] as const)),
)
const TWIN = `[${[...LATIN_OF.keys()].join('')}]`
const ANY_TWIN = new RegExp(TWIN, 'gu')
const ONLY_TWINS = new RegExp(`^${TWIN}{3,}$`, 'u')
const LATIN = /\p{Script=Latin}/u
const STYLED = /[\u{1d400}-\u{1d7ff}]/u

/** In names and titles: letters of another script within a Latin word, or a word made of them beside Latin ones. */
function findLookAlike({ text, isLabel }: Text): string | undefined {
  if (!isLabel) return undefined
  if (STYLED.test(text)) return 'holds mathematical letters that look like plain ones'
  const hasLatin = LATIN.test(text)
  for (const [word] of text.matchAll(/[\p{L}\p{M}]+/gu)) {
    const twin = word.match(ANY_TWIN)?.[0]
    if (twin === undefined || !(LATIN.test(word) || (hasLatin && ONLY_TWINS.test(word)))) continue
    const point = twin.codePointAt(0)?.toString(16).padStart(4, '0').toUpperCase()
    return `holds U+${point}, which looks like the Latin ${LATIN_OF.get(twin)}`
  }
  return undefined
}

/**
 * The words of a text in lower case, one space apart: styled and look-alike letters become plain ones, camel case and
 * underscores become words, decoration goes. `|` marks the end of a sentence.
 */
export function plainWords(text: string): string {
  return text
    .normalize('NFKC')
    .replaceAll(ANY_TWIN, (twin) => LATIN_OF.get(twin) ?? twin)
    .replaceAll(/[\p{M}\p{Cf}]/gu, '')
    .replaceAll(/(?<=\p{Ll})(?=\p{Lu})/gu, ' ')
    .replaceAll(/[.!?;](?=\s|$)/g, ' | ')
    .replaceAll(/[^\p{L}\p{N}:@|]+/gu, ' ')
    .toLowerCase()
}

/** A part of a text for a message: one line without hidden characters. */
const excerpt = (text: string) => plainLine(text).slice(0, 80)
const plainLine = (text: string) =>
  text
    .slice(0, 200)
    .replaceAll(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
