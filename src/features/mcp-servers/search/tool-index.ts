/**
 * Ranks the tools of a version for a query by BM25 (Robertson and Zaragoza 2009) over names, titles, descriptions and names
 * of arguments. The same query on the same version gives the same order.
 */

import { LRUCache } from 'lru-cache'
import { MCP_LIMITS } from '../limits.ts'
import type { PublishedVersion } from '../manifest.ts'
import type { Tool } from '../tool.ts'

/** Parameters of BM25: saturation by repeated terms, and normalisation by length. */
const K1 = 1.2
const B = 0.75
/** How often a term counts, by the text that it is in. */
const WEIGHTS = { name: 3, title: 2, description: 1, arguments: 1 }
/** A text that repeats a term gains no more by it. */
const REPETITIONS_MAX = 2

interface ToolIndex {
  /** The weighted frequency of each term, by position of the tool. */
  readonly postings: ReadonlyMap<string, ReadonlyMap<number, number>>
  /** Of each tool: the weighted number of its terms. */
  readonly lengths: readonly number[]
  readonly meanLength: number
}

/** By the hash of the manifest, on which alone an index depends. */
const INDEXES = new LRUCache<string, ToolIndex>({ max: MCP_LIMITS.toolIndexesCachedMax })

/** The tools of a version that share a term with the query, best first; equal ones in the order of the manifest. */
export function rankTools({ hash, manifest: { tools } }: PublishedVersion, query: string): Tool[] {
  const index = INDEXES.get(hash) ?? indexOf(tools)
  INDEXES.set(hash, index)
  const scores = new Map<number, number>()
  for (const term of new Set(termsOf(query))) {
    const found = index.postings.get(term)
    if (found === undefined) continue
    const rarity = Math.log(1 + (tools.length - found.size + 0.5) / (found.size + 0.5))
    for (const [at, frequency] of found) {
      const length = (index.lengths[at] ?? 0) / index.meanLength
      const score = (rarity * frequency * (K1 + 1)) / (frequency + K1 * (1 - B + B * length))
      scores.set(at, (scores.get(at) ?? 0) + score)
    }
  }
  const ranked = [...scores].sort(([a, x], [b, y]) => y - x || a - b)
  return ranked.flatMap(([at]) => tools[at] ?? [])
}

function indexOf(tools: readonly Tool[]): ToolIndex {
  const postings = new Map<string, Map<number, number>>()
  const lengths = tools.map((tool, at) => {
    let length = 0
    for (const [term, weight] of weightedTerms(tool)) {
      const found = postings.get(term) ?? new Map<number, number>()
      postings.set(term, found.set(at, (found.get(at) ?? 0) + weight))
      length += weight
    }
    return length
  })
  const total = lengths.reduce((sum, length) => sum + length, 0)
  return { postings, lengths, meanLength: total / Math.max(1, lengths.length) || 1 }
}

function weightedTerms({ name, title, description, input_schema }: Tool): [string, number][] {
  const names = Object.keys(Object(input_schema['properties'])).slice(0, MCP_LIMITS.searchArgumentsMax)
  const texts = { name, title, description, arguments: names.join(' ') }
  return Object.entries(WEIGHTS).flatMap(([field, weight]) =>
    [...Map.groupBy(termsOf(texts[field as keyof typeof texts]), (term) => term)].map(
      ([term, all]): [string, number] => [term, weight * Math.min(all.length, REPETITIONS_MAX)],
    ),
  )
}

/** Words in lower case, without the plural: `lateOrders`, `late_order` → `late`, `order`. */
function termsOf(text: string): string[] {
  const words = text
    .normalize('NFKC')
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .match(/[\p{L}\p{N}\p{M}]+/gu)
  return (words ?? []).map((word) => (word.length > 3 ? word.replace(/(?<!s)s$/, '') : word))
}
