/** SQL as a value: text with numbered parameters, and their values. No text of a user ever becomes SQL. */

import { escapeLiteral } from 'pg'

export type SqlValue = string | number | boolean | null | undefined | Date | object

const TEXTS = new WeakMap<readonly string[], string>()

/** A value that is interpolated several times and sent once. */
class Shared {
  readonly value: SqlValue
  constructor(value: SqlValue) {
    this.value = value
  }
}

/** Merges several statements of a kind into one, whose rows have the key of their item as `item_id`. */
export interface StatementKind<Item = unknown> {
  readonly merge: (items: readonly Item[]) => Sql
}

/** A statement of a kind, about the row with this key. */
interface Coalescable<Item = unknown> {
  readonly kind: StatementKind<Item>
  readonly key: string
  readonly item: Item
}

export class Sql {
  readonly #parts: readonly string[]
  readonly #values: readonly SqlValue[]
  /** Set if the statement can be merged with others of its kind. */
  readonly coalescable: Coalescable | undefined

  private constructor(parts: readonly string[], values: readonly SqlValue[], coalescable?: Coalescable) {
    this.#parts = parts
    this.#values = values
    this.coalescable = coalescable
  }

  as(coalescable: Coalescable): Sql {
    return new Sql(this.#parts, this.#values, coalescable)
  }

  /** Called by the tag below only: the strings of a template literal are our own source text. */
  static of(parts: TemplateStringsArray, values: readonly (SqlValue | Sql)[]): Sql {
    // A literal passes the same array each time, so its text is built once.
    if (!values.some((value) => value instanceof Sql)) return new Sql(parts, values)
    const texts: string[] = [parts[0] ?? '']
    const bound: SqlValue[] = []
    values.forEach((value, index) => {
      const tail = parts[index + 1] ?? ''
      if (!(value instanceof Sql)) {
        bound.push(value)
        texts.push(tail)
        return
      }
      const [head = '', ...rest] = value.#parts
      texts[texts.length - 1] += head
      texts.push(...rest)
      texts[texts.length - 1] += tail
      bound.push(...value.#values)
    })
    return new Sql(texts, bound)
  }

  /** Joins all parts at once: one by one, the text of hundreds of columns would be copied hundreds of times. */
  static joined(parts: readonly Sql[], by: ', ' | ' + ' | ' or ' | ' union all '): Sql {
    const texts = ['']
    for (const [index, part] of parts.entries()) {
      const [head = '', ...rest] = part.#parts
      texts[texts.length - 1] += index === 0 ? head : `${by}${head}`
      texts.push(...rest)
    }
    return new Sql(
      texts,
      parts.flatMap((part) => part.#values),
    )
  }

  /**
   * A quoted name.
   * @throws TypeError if it is not of the form of names that the platform generates
   * @example
   * sql`select from tenon_data.${Sql.identifier(relation)}` // select from tenon_data."sch_…"
   */
  static identifier(name: string): Sql {
    if (!/^[a-z][a-z0-9_]{0,62}$/.test(name))
      throw new TypeError('the name is not an identifier of the platform')
    return new Sql([`"${name}"`], [])
  }

  /**
   * A value with one parameter number, however often it is interpolated.
   * @example
   * const day = Sql.shared(date)
   * sql`select from executions where started_at >= ${day} and ended_at < ${day}` // … >= $1 and … < $1
   */
  static shared(value: SqlValue): Sql {
    return new Sql(['', ''], [new Shared(value)])
  }

  /**
   * The statement with its values as quoted literals, for definitions, which take no parameters.
   * @example
   * sql`create policy open on notes using (state = ${'open'})`.withLiterals().text // … using (state = 'open')
   */
  withLiterals(): Sql {
    const literals = this.#values.map((value) => {
      const text = encode(value instanceof Shared ? value.value : value)
      return text === null ? 'null' : escapeLiteral(text)
    })
    return new Sql(
      [this.#parts.map((part, index) => (index === 0 ? part : `${literals[index - 1]}${part}`)).join('')],
      [],
    )
  }

  /** `select … where id = $1` */
  get text(): string {
    const known = TEXTS.get(this.#parts)
    if (known !== undefined) return known
    const distinct = this.#distinct
    let shared = 0
    const numbers = this.#values.map((value, index) => {
      const first = value instanceof Shared ? distinct.indexOf(value) : index - shared
      if (first < index - shared) shared += 1
      return first + 1
    })
    const text = this.#parts
      .map((part, index) => (index === 0 ? part : `$${numbers[index - 1]}${part}`))
      .join('')
    TEXTS.set(this.#parts, text)
    return text
  }

  /** In text form, for the extended protocol. Objects are sent as JSON. */
  get values(): (string | null)[] {
    return this.#distinct.map((value) => encode(value instanceof Shared ? value.value : value))
  }

  /** Each shared value once, at its first position. */
  get #distinct(): readonly SqlValue[] {
    if (!this.#values.some((value) => value instanceof Shared)) return this.#values
    return this.#values.filter(
      (value, index) => !(value instanceof Shared) || this.#values.indexOf(value) === index,
    )
  }
}

/**
 * A statement, or a piece of one: values become parameters, a nested `Sql` is spliced in.
 * @example
 * const own = sql`tenant_id = ${tenantId}`
 * const rows = await scope.rows<{ name: string }>(sql`select name from workspaces where ${own} limit ${10}`)
 */
export function sql(parts: TemplateStringsArray, ...values: (SqlValue | Sql)[]): Sql {
  return Sql.of(parts, values)
}

/**
 * Texts as the value of an array (PostgreSQL manual, "Arrays", input syntax).
 * @example
 * sql`select from documents where id = any(${textArray(ids)}::uuid[])`
 */
export const textArray = (texts: readonly string[]): string => `{${texts.map(inQuotes).join()}}`

/** Escapes quotes and backslashes with backslashes; JSON does the same, and faster, for texts without other escapes. */
const inQuotes = (text: string): string =>
  ESCAPED.test(text) ? `"${text.replaceAll(/[\\"]/g, '\\$&')}"` : JSON.stringify(text)

// biome-ignore lint/suspicious/noControlCharactersInRegex: those that JSON escapes
const ESCAPED = /[\0-\x1f\p{Surrogate}]/u

/**
 * Pieces with commas between them.
 * @example
 * commas(['c1', 'c2'].map((name) => Sql.identifier(name))) // "c1", "c2"
 */
export function commas(parts: readonly Sql[]): Sql {
  return Sql.joined(parts, ', ')
}

function encode(value: SqlValue): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'object')
    return Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : JSON.stringify(value)
  return String(value)
}
