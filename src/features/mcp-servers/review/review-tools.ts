/** Compares the tools of a draft with those of the active version, and checks their texts. A worker thread runs it for large ones. */

import { isDeepStrictEqual } from 'node:util'
import { scopeOf } from '../../../core/tool-access.ts'
import { isCompatible } from '../../collections/schemas/is-compatible.ts'
import { prepare } from '../../collections/schemas/schema-language.ts'
import type { Group } from '../curation/groups.ts'
import type { JsonSchema, Tool } from '../tool.ts'
import { type LintFinding, lintTools } from './lint.ts'

interface Reason {
  readonly tool: string | null
  readonly detail: string
}

/** The part of a manifest that is reviewed. */
interface Reviewed {
  readonly name: string
  readonly description: string
  readonly groups: readonly Group[]
  readonly tools: readonly Tool[]
}

/** Plain data, which is copied to the thread. */
export interface ReviewInput {
  readonly slug: string
  /** The active version. */
  readonly before: Reviewed
  readonly after: Reviewed
}

export interface ToolReview {
  readonly findings: readonly LintFinding[]
  /** Texts that are suspect now, and are not in the active version. */
  readonly suspect: readonly Reason[]
  readonly breaking: readonly Reason[]
}

export function reviewTools({ slug, before, after }: ReviewInput): ToolReview {
  const findings = lintTools(after.tools, { ...after, slug })
  return {
    findings,
    suspect: suspectTexts(findings, before),
    breaking: breakingChanges(slug, before.tools, after.tools),
  }
}

/** Suspect texts, other than those that the active version has: these were approved. */
function suspectTexts(findings: readonly LintFinding[], before: Reviewed): Reason[] {
  const keyOf = ({ tool, pointer, rule, detail }: LintFinding) =>
    JSON.stringify([tool, pointer, rule, detail])
  const known = new Set(lintTools(before.tools, before).map(keyOf))
  return findings
    .filter((finding) => finding.severity === 'suspect' && !known.has(keyOf(finding)))
    .map(({ tool, pointer, detail }) => ({ tool, detail: `${pointer.slice(1)} ${detail}` }))
}

/** The changes after which calls that succeeded before may fail, or return what their schema did not say. */
function breakingChanges(slug: string, before: readonly Tool[], after: readonly Tool[]): Reason[] {
  return before.flatMap((was) => {
    const now = after.find(({ name }) => name === was.name)
    if (now === undefined) return [{ tool: was.name, detail: 'is removed' }]
    const details = [
      now.candidate === was.candidate ? undefined : `runs ${now.candidate}; before, it ran ${was.candidate}`,
      now.scope === was.scope
        ? undefined
        : `needs the scope ${scopeOf(slug, now)}; before, ${scopeOf(slug, was)}`,
      accepts(now.input_schema, was.input_schema) ? undefined : 'may refuse arguments that it took before',
      accepts(was.output_schema ?? {}, now.output_schema ?? {})
        ? undefined
        : 'may return what its schema excluded',
    ]
    return details.flatMap((detail) => (detail === undefined ? [] : [{ tool: was.name, detail }]))
  })
}

/** True if a schema surely accepts every value of another one. Texts for readers do not count. */
const accepts = (schema: JsonSchema, values: JsonSchema) =>
  isDeepStrictEqual(schema, values) || isCompatible(prepare(values).schema, prepare(schema).schema)
