/** The language of rules on objects and topics: texts such as `avatars/{user.id}/`, matched with the values of a user. */

import { type EndUser, readUserVariable, type UserVariable, userValue } from '../core/policy.ts'
import { ACCESS_LIMITS } from './limits.ts'

/** The part of a rule between two separators. It has at most one variable: with two, different users could have values that join to the same text. */
interface Segment {
  readonly before: string
  readonly variable?: UserVariable
  readonly after: string
}

export interface UserRule {
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
export const prefixRules = (texts: readonly string[]): UserRule[] =>
  texts.flatMap((text) => (text.endsWith('/') ? ruleOf(text.slice(0, -1), '/', true) : []))

/** The rules of stored topics: `orders.created`, or `orders.*` for all below one. */
export const topicRules = (texts: readonly string[]): UserRule[] =>
  texts.flatMap((text) =>
    text.endsWith('.*') ? ruleOf(text.slice(0, -2), '.', true) : ruleOf(text, '.', false),
  )

function ruleOf(text: string, separator: Separator, isPrefix: boolean): UserRule[] {
  const segments = readSegments(text, separator)
  return 'detail' in segments ? [] : [{ segments, isPrefix }]
}

/** True if a rule covers the key, or all keys that begin with this text. */
export const coversKey = (rules: readonly UserRule[], user: EndUser, key: string): boolean =>
  isCovered(rules, user, { texts: key.split('/'), isValue: isKeySegment })

/** True if a rule covers the topic, or with `.*` at its end all topics below it. */
export const coversTopic = (rules: readonly UserRule[], user: EndUser, topic: string): boolean =>
  isCovered(rules, user, { texts: topic.split('.'), isValue: isTopicWord })

const isKeySegment = (text: string) =>
  text !== '' && text !== '.' && text !== '..' && !/[/\\\p{Cc}\p{Cs}]/u.test(text)

const isTopicWord = (text: string) => /^[A-Za-z0-9_-]+$/.test(text)

/** The key or topic of a request, split at its separators, and the test that a user's value has to pass. */
interface Target {
  readonly texts: readonly string[]
  readonly isValue: (text: string) => boolean
}

const isCovered = (rules: readonly UserRule[], user: EndUser, { texts, isValue }: Target): boolean =>
  rules.some(({ segments, isPrefix }) => {
    const isLong = isPrefix ? texts.length > segments.length : texts.length === segments.length
    return isLong && segments.every((segment, index) => matches(segment, user, texts[index] ?? '', isValue))
  })

function matches(
  { before, variable, after }: Segment,
  user: EndUser,
  text: string,
  isValue: Target['isValue'],
): boolean {
  if (variable === undefined) return text === before
  const value = text.slice(before.length, text.length - after.length)
  return text === `${before}${value}${after}` && isValue(value) && hasValue(user, variable, value)
}

/** True if a text is the value of a variable, or an element of its list. */
function hasValue(user: EndUser, variable: UserVariable, text: string): boolean {
  const value = userValue(user, variable)
  return Array.isArray(value)
    ? value.slice(0, ACCESS_LIMITS.ruleClaimValuesMax).includes(text)
    : value === text
}
