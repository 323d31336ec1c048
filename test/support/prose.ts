/** Rules for texts that clients, operators and models read; each is named after what it asks of a text. */

export interface Text {
  /** Where the text is, such as a JSON pointer. */
  readonly at: string
  readonly text: string
}

export interface ProseRule {
  /** What the rule asks, as the outcome in the title of a test. */
  readonly name: string
  /** The part of a text that breaks the rule; undefined if none does. */
  readonly find: (text: string) => string | undefined
}

/** The texts that break a rule, each with its place and what breaks it. */
export function violations({ find }: ProseRule, texts: readonly Text[]): string[] {
  return texts.flatMap(({ at, text }) => {
    const found = find(text)
    return found === undefined ? [] : [`${at}: "${found}" in: ${text}`]
  })
}

/** Code and quotations are names and examples, which no rule of prose binds. */
const proseOf = (text: string) => text.replaceAll(/`[^`]*`/g, '``').replaceAll(/"[^"]*"/g, '""')

/** The words of a list, which white space separates. */
export const words = (list: string) => list.trim().split(/\s+/)

const refuse = (name: string, pattern: RegExp): ProseRule => ({
  name,
  find: (text) => pattern.exec(proseOf(text))?.[0],
})

const demand = (name: string, pattern: RegExp): ProseRule => ({
  name,
  find: (text) => (pattern.test(text) ? undefined : text),
})

/** The first words that a summary of an operation or a description of a command may have. */
export const IMPERATIVE_VERBS = words(`
  Activate Append Approve Call Cancel Check Configure Confirm Copy Count Create Decide Declare Decrypt Delete Deploy Drop Encrypt End
  Explain Export Import Invite Invoke List Merge Move Patch Pause Preview Publish Query Read Refresh Register Remove
  Rename Renew Replace Require Rerun Reset Restore Resume Retry Return Revoke Rotate Run Send Set Sign Simulate Skip Start Store Stream
  Subscribe Suspend Test Truncate Update Verify Write`)

export const beginsWithVerb = (verbs: readonly string[] = IMPERATIVE_VERBS) =>
  demand('begins with an imperative verb', new RegExp(`^(?:${verbs.join('|')}) \\S`))

/** A summary is one phrase: titles and lists of tools show it without what is around it. */
export const hasNoPeriod = refuse('has no period', /\.(?:\s|$)/)

export const endsWithPeriod = demand('ends with a period', /\.$/)

/** "`active`: …" explains a value of something that the text does not name. */
export const namesThingFirst = refuse('names the thing before its values', /^``:/)

export const beginsWithTrueIf = demand('begins with "True if"', /^True if \S/)

export const namesUnit = (unit: RegExp) => demand(`names its unit, ${unit.source}`, unit)

export const hasSeveralWords = demand('has more than one word', /\S\s+\S/)

export const beginsUpright = demand('begins with a capital letter, a figure or code', /^[`"\p{Lu}\d]/u)

/** Words that begin a text whose subject the reader would have to guess. */
const WITHOUT_SUBJECT = words(`
  Of What Whatever Whether Those As How Which Where Why Who Whom Whose Whoever When Until It Its They Their There
  That This Them He She By To In On From With Without After Before At For Also Never Same Shown Sent Given
  Present Absent Estimated Unique Goes Comes Makes Grows Identifies Starts Narrows Replaces Stores Asks Tells`)

export const hasSubject = refuse(
  'has a subject of its own',
  new RegExp(`^(?:${WITHOUT_SUBJECT.join('|')}|Not (?!modified)|Only (?:of|those|what))\\b`),
)

/** Conditions without a verb, and idioms that a reader has to decode. */
const IDIOMS = [
  'where (?:absent|given|none|nothing|no|a|an|the|its|it|all|there)\\b',
  'takes? (?:\\w+ )?away',
  'as the caller has it',
  'no further people',
  'no oftener',
  'of no use',
  'good (?:until|for ever)',
  'still good',
  'for ever',
  'counts? no more',
  'made up for',
  'passe?s? by\\b',
  'passed over',
  'go(?:es)? on\\b',
  '(?:is|are|was) there already',
  'is done (?:once|twice)',
  'looked at',
  'dealt with',
  'in this answer only',
  'what is not named',
  'not named (?:stay|go)',
  '(?:requests|entries|object|user|document) a (?:minute|call|line)',
]

export const hasNoIdiom = refuse(
  'has no idiom of the old language',
  new RegExp(`\\b(?:${IDIOMS.join('|')})`, 'i'),
)

/** Rare words for which the field has a common one: see the glossary. */
const RARE_WORDS = words(`
  whom whoever nobody anybody somebody told tells hear hears heard withdraw withdraws withdrawn withdrawal
  narrow narrows narrowed narrower fit fits alike anew likewise wanting thereby oftener`)

export const usesCommonWords = refuse(
  'uses common words',
  new RegExp(`\\b(?:${RARE_WORDS.join('|')})\\b`, 'i'),
)

/** One form, so that readers and models recognise it. */
export const statesDefault: ProseRule = {
  name: 'states a default as "Default: 50."',
  find: (text) => /.{0,20}\bdefaults?\b.*/i.exec(proseOf(text).replaceAll(/\bDefault: [^.;]+[.;]/g, ''))?.[0],
}

export const writesLiteralsAsCode = refuse('writes null, true and false as code', /\b(?:null|true|false)\b/)

/** Initialisms whose first letter sounds like a vowel. */
const VOWEL_INITIALISMS = 'MCP|HTTP|HTTPS|RFC|S3|SHA-256|SQL|XML|MD5|NDJSON'

export const usesArticles = refuse(
  'has "an" before a vowel and "a" before a consonant',
  new RegExp(
    `\\b[Aa] (?:(?!one\\b|once\\b|uni[^m]|use|usu|URL|URI|UUID|UTC)[aeiouAEIOU]|(?:${VOWEL_INITIALISMS})\\b)` +
      `|\\b[Aa]n (?:user|URL|URI|UUID|unique|unit)`,
  ),
)

/** Rules of every text. */
export const PROSE_RULES: readonly ProseRule[] = [
  hasNoIdiom,
  usesCommonWords,
  writesLiteralsAsCode,
  usesArticles,
]

/** Rules of summaries of operations and descriptions of commands, besides those of every text. */
export const SUMMARY_RULES: readonly ProseRule[] = [beginsWithVerb(), hasNoPeriod]

/** Rules of descriptions of fields, parameters and replies, besides those of every text. */
export const DESCRIPTION_RULES: readonly ProseRule[] = [
  beginsUpright,
  hasSubject,
  namesThingFirst,
  hasSeveralWords,
  endsWithPeriod,
  statesDefault,
]
