/** Paths and queries of S3 requests: decoded once, and escaped again as signatures have them. */

import { Problem } from '../../core/problem.ts'

/** Escapes all but the unreserved characters of RFC 3986. */
export const uriEncode = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** As {@link uriEncode}, but for slashes. */
export const encodePath = (path: string): string => path.split('/').map(uriEncode).join('/')

/** Decodes escapes once. @throws Problem `InvalidURI` for malformed ones, and those that are not UTF-8 */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new Problem('InvalidURI', { cause })
  }
}

type Parameter = readonly [name: string, value: string]

/** The parameters of a query, in order; a name may come several times. */
export class Query {
  readonly #parameters: readonly Parameter[]

  /** @param search without the question mark @throws Problem `InvalidURI` */
  constructor(search: string) {
    const pairs = search.split('&').filter((pair) => pair !== '')
    this.#parameters = pairs.map((pair) => {
      const [name = '', value = ''] = pair.split(/=(.*)/s, 2).map((text) => decode(text.replaceAll('+', ' ')))
      return [name, value]
    })
  }

  has(name: string): boolean {
    return this.#parameters.some(([one]) => one === name)
  }

  all(name: string): string[] {
    return this.#parameters.flatMap(([one, value]) => (one === name ? [value] : []))
  }

  /** The first value of a parameter. */
  get(name: string): string | undefined {
    return this.all(name)[0]
  }

  get pairs(): readonly Parameter[] {
    return this.#parameters
  }

  get names(): string[] {
    return this.#parameters.map(([name]) => name)
  }

  /** Escaped, and in the order of names and values. @param without the name of a parameter to leave out */
  canonical(without: string): string {
    return this.#parameters
      .filter(([name]) => name !== without)
      .map(([name, value]) => [uriEncode(name), uriEncode(value)] as const)
      .sort(([a, x], [b, y]) => compare(a, b) || compare(x, y))
      .map((pair) => pair.join('='))
      .join('&')
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
