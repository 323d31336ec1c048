/** Checks the prefixes and rules that an admin sets for the anon keys and users of a workspace. */

import type { Static } from 'typebox'
import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { isPrefix } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { sentences } from '../../core/text/sentences.ts'
import { RULE_VARIABLES, type RuleFault, readSegments } from '../collections/rules/text-rules.ts'
import { isWorkspaceTopic } from '../events/events.ts'
import type { UserObjectsInput, UserTopicsInput } from './public-access.ts'

const PREFIX_RULE =
  'A prefix ends with a slash and does not begin with one; `.`, `..` and control characters are not taken.'

/** @throws Problem `validation_failed` if a prefix is malformed */
export function checkPrefixes(prefixes: readonly string[]): void {
  const errors = prefixes.flatMap((prefix, index) => {
    const pointer = `/objects/public_read/${index}`
    return isPrefix(prefix) ? [] : [{ in: 'body', name: 'objects', pointer, detail: PREFIX_RULE } as const]
  })
  const detail = 'objects.public_read has a prefix that is not valid.'
  if (errors.length > 0) throw new Problem('validation_failed', { detail, errors })
}

type Check = (text: string) => string | undefined

/** @throws Problem `validation_failed` with a pointer to each rule that is malformed */
export function checkUserRules(
  objects: Static<typeof UserObjectsInput> = {},
  topics: Static<typeof UserTopicsInput> = {},
): void {
  const errors = [
    ...errorsIn('objects', objects, objectRuleFault),
    ...errorsIn('topics', topics, topicRuleFault),
  ]
  const [first] = errors
  if (first === undefined) return
  throw new Problem('validation_failed', {
    detail: `${first.pointer}: ${first.detail}`,
    errors,
    hint: `Rules take ${RULE_VARIABLES.map((name) => `{${name}}`).join(', ')}.`,
  })
}

function errorsIn(name: string, rules: Readonly<Record<string, readonly string[]>>, faultOf: Check) {
  return Object.entries(rules).flatMap(([right, texts]) =>
    texts.flatMap((text, index) => {
      const detail = faultOf(text)
      const pointer = `/${name}/user/${right}/${index}`
      return detail === undefined ? [] : [{ in: 'body', name, pointer, detail } as const]
    }),
  )
}

function objectRuleFault(text: string): string | undefined {
  const sample = sampleOf(text, '/')
  if (typeof sample !== 'string') return faultText(sample)
  if (sample.includes('*')) return 'A prefix has no *: it covers all keys below it.'
  return isPrefix(sample) ? undefined : PREFIX_RULE
}

const TOPIC = /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:\.\*)?$/

function topicRuleFault(text: string): string | undefined {
  const sample = sampleOf(text, '.')
  if (typeof sample !== 'string') return faultText(sample)
  if (text.includes('{user.email}')) return 'No topic has the @ of an address.'
  if (/\*./.test(sample)) return '* stands at the end only: `orders.*` covers all topics below orders.'
  if (!TOPIC.test(sample))
    return 'A topic has words of letters, digits, - and _ with dots between, and may end with .*'
  return isWorkspaceTopic(sample)
    ? `Topics below ${sample.split('.')[0]} are the platform's own; the declaration of a collection decides who receives its changes.`
    : undefined
}

/** The text with a word for each variable, or why it is no rule. */
function sampleOf(text: string, separator: '/' | '.'): string | RuleFault {
  const segments = readSegments(text, separator)
  if ('detail' in segments) return segments
  return segments
    .map(({ before, variable, after }) => `${before}${variable === undefined ? '' : 'x'}${after}`)
    .join(separator)
}

function faultText({ detail, unknown }: RuleFault): string {
  const near = unknown === undefined ? undefined : nearest(unknown, RULE_VARIABLES)
  return near === undefined ? detail : sentences(detail, `Did you mean {${near}}?`)
}
