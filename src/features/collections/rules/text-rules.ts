/**
 * Rules on object keys and topics: texts such as `avatars/{user.id}/`, which name the segments that a user may reach. As a rule
 * on documents is (bind-rule.ts), each is bound to its caller, to a filter that query/evaluate.ts decides.
 */

import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { type EndUser, readUserVariable, type UserVariable, userValue } from '../../../core/policy.ts'
import { evaluate } from '../query/evaluate.ts'
import type { Filter, Literal } from '../query/filter.ts'

/** The part of a rule between two separators. It has at most one variable: with two, different users could have values that join to the same text. */
interface Segment {
  readonly before: string
  readonly variable?: UserVariable
  readonly after: string
}

export interface TextRule {
  readonly segments: readonly Segment[]
  /** True if it covers all texts with further segments, false if it covers one text. */
  readonly isPrefix: boolean
}

/** Why a text is no rule. */
export interface RuleFault {
  readonly detail: string
  /** The name between braces that is no variable. */
  readonly unknown?: string
}

type Separator = '/' | '.'
/** Separators that are not between braces. The bound, above the length of every variable, keeps the search linear. */
const SEPARATORS = { '/': /\/(?![^{}]{0,100}\})/, '.': /\.(?![^{}]{0,100}\})/ } as const
const SEGMENT = /^([^{}]*)(?:\{([^{}]*)\}([^{}]*))?$/s

/** The variables that rules take, without braces. */
export const RULE_VARIABLES = ['user.id', 'user.email', 'user.claims.<name>'] as const

/** @returns the segments of a text, or why it has none */
export function readSegments(text: string, separator: Separator): readonly Segment[] | RuleFault {
  const segments: Segment[] = []
  for (const part of text.split(SEPARATORS[separator])) {
    const segment = readSegment(part, separator)
    if ('detail' in segment) return segment
    segments.push(segment)
  }
  return segments
}

function readSegment(text: string, separator: Separator): Segment | RuleFault {
  const [found, before = '', name, after = ''] = SEGMENT.exec(text) ?? []
  if (found === undefined) {
    const isBalanced = /^(?:[^{}]*\{[^{}]*\})*[^{}]*$/s.test(text)
    return {
      detail: isBalanced
        ? `A rule can have at most one variable between two ${separator === '/' ? 'slashes' : 'dots'}.`
        : 'A brace is not closed, or not opened.',
    }
  }
  if (name === undefined) return { before, after }
  const variable = readUserVariable(name)
  if (variable !== undefined) return { before, variable, after }
  const unknown = name.slice(0, 100)
  return { detail: `There is no variable {${unknown}}.`, unknown }
}

/** The rules of stored prefixes, each ending with a slash. A text that is no rule covers nothing. */
export const prefixRules = (texts: readonly string[]): TextRule[] =>
  texts.flatMap((text) => (text.endsWith('/') ? readTextRule(text.slice(0, -1), '/', true) : []))

/** The rules of stored topics: `orders.created`, or `orders.*` for all below one. */
export const topicRules = (texts: readonly string[]): TextRule[] =>
  texts.flatMap((text) =>
    text.endsWith('.*') ? readTextRule(text.slice(0, -2), '.', true) : readTextRule(text, '.', false),
  )

function readTextRule(text: string, separator: Separator, isPrefix: boolean): TextRule[] {
  const segments = readSegments(text, separator)
  return 'detail' in segments ? [] : [{ segments, isPrefix }]
}

/** True if a rule covers the key, or all keys that begin with this text. */
export const coversKey = (rules: readonly TextRule[], user: EndUser, key: string): boolean =>
  isCovered(rules, key.split('/'), literalsFor(user, isKeySegment))

/** True if a rule covers the topic, or with `.*` at its end all topics below it. */
export const coversTopic = (rules: readonly TextRule[], user: EndUser, topic: string): boolean =>
  isCovered(rules, topic.split('.'), literalsFor(user, isTopicWord))

const isKeySegment = (text: string) =>
  text !== '' && text !== '.' && text !== '..' && !/[/\\\p{Cc}\p{Cs}]/u.test(text)

const isTopicWord = (text: string) => /^[A-Za-z0-9_-]+$/.test(text)

function isCovered(
  rules: readonly TextRule[],
  texts: readonly string[],
  literalsOf: (variable: UserVariable) => readonly TextLiteral[],
): boolean {
  return rules.some((rule) => evaluate(bindTextRule(rule, literalsOf), ([, index]) => texts[Number(index)]))
}

/** A filter on the fields `segment.0`, `segment.1` and so on of a key or topic. */
function bindTextRule(
  { segments, isPrefix }: TextRule,
  literalsOf: (variable: UserVariable) => readonly TextLiteral[],
): Filter {
  const field = (index: number) => ['segment', String(index)] as const
  const tests = segments.map(({ before, variable, after }, index): Filter => {
    const values: readonly Literal[] =
      variable === undefined
        ? [[before]]
        : literalsOf(variable).map(([value]) => [`${before}${value}${after}`])
    return { kind: 'test', path: field(index), test: { op: 'in', values }, not: false }
  })
  // A prefix covers texts with further segments, any other rule those without.
  return { kind: 'all', of: [{ kind: 'exists', path: field(segments.length), not: !isPrefix }, ...tests] }
}

type TextLiteral = readonly [string]

/** Reads the values of a user, each variable once. Values that cannot stand in a segment count for nothing. */
function literalsFor(user: EndUser, isValue: (text: string) => boolean) {
  const known = new Map<string, readonly TextLiteral[]>()
  return (variable: UserVariable): readonly TextLiteral[] => {
    const name = variable.join('.')
    const literals =
      known.get(name) ?? textsOf(user, variable).flatMap((text) => (isValue(text) ? [[text] as const] : []))
    known.set(name, literals)
    return literals
  }
}

/** The value of a variable, or the texts among the first elements of its list. */
function textsOf(user: EndUser, variable: UserVariable): string[] {
  const value = userValue(user, variable)
  const values: unknown[] = Array.isArray(value) ? value.slice(0, ACCESS_LIMITS.ruleClaimValuesMax) : [value]
  return values.filter((one) => typeof one === 'string')
}
