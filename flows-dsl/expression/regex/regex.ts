/** Knows what a regular expression is once parsed. */

/** Whether a set holds a code point. */
export type PointSet = (point: number) => boolean

/** Places: of the text as a whole, of its lines, of its words, and where the search began. */
export type Anchor = 'start' | 'end' | 'last-line' | 'line-start' | 'line-end' | 'word' | 'no-word' | 'search'

export type Regex =
  | { readonly kind: 'point'; readonly set: PointSet }
  | { readonly kind: 'anchor'; readonly anchor: Anchor }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Regex[] }
  | {
      readonly kind: 'repeat'
      readonly part: Regex
      readonly least: number
      readonly most: number
      readonly lazy: boolean
    }
  | { readonly kind: 'group'; readonly index: number; readonly part: Regex }
  | { readonly kind: 'look'; readonly part: Regex; readonly behind: boolean; readonly negative: boolean }

/** A regular expression with the names of its groups; null for one that has none. */
export interface ParsedRegex {
  readonly regex: Regex
  readonly groups: readonly (string | null)[]
}

/** Why a text is no regular expression. */
export class RegexFault extends Error {}
