/** SQL as a value: text with numbered places, and the values for them. No user text ever becomes SQL. */

export type SqlValue = string | number | boolean | null | undefined | Date | object

const TEXTS = new WeakMap<readonly string[], string>()

/** A value that stands in several places and is sent and read once. */
class Shared {
  readonly value: SqlValue
  constructor(value: SqlValue) {
    this.value = value
  }
}

const isShared = (value: SqlValue): boolean => value instanceof Shared

/** Says at once what several statements of a kind say; each row that comes back has the key of its item as `given_id`. */
export interface Kind<Item = unknown> {
  readonly join: (items: readonly Item[]) => Sql
}

/** One statement of a kind, about the thing with this key. */
export interface Joint<Item = unknown> {
  readonly kind: Kind<Item>
  readonly key: string
  readonly item: Item
}

export class Sql {
  readonly #parts: readonly string[]
  readonly #values: readonly SqlValue[]
  /** Where several of its kind can be one statement: which of them it is. */
  readonly joint: Joint | undefined

  private constructor(parts: readonly string[], values: readonly SqlValue[], joint?: Joint) {
    this.#parts = parts
    this.#values = values
    this.joint = joint
  }

  /** The same, as one of a kind. */
  as(joint: Joint): Sql {
    return new Sql(this.#parts, this.#values, joint)
  }

  /** Only the tag below makes one: the strings of a template literal are our own source text. */
  static of(parts: TemplateStringsArray, values: readonly (SqlValue | Sql)[]): Sql {
    // The same array each time that the literal is run, so its text is put together once.
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

  /** Put together at once: of hundreds of columns, one by one, the beginning would be copied hundreds of times. */
  static joined(parts: readonly Sql[], by: ', ' | ' + '): Sql {
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

  /** One name, in quotes. @throws TypeError where it is not of the form of names that the platform itself gives */
  static identifier(name: string): Sql {
    if (!/^[a-z][a-z0-9_]{0,62}$/.test(name)) throw new TypeError('not an identifier of ours')
    return new Sql([`"${name}"`], [])
  }

  /** A value that gets one number, however often it is interpolated. */
  static shared(value: SqlValue): Sql {
    return new Sql(['', ''], [new Shared(value)])
  }

  /** `select … where id = $1` */
  get text(): string {
    const known = TEXTS.get(this.#parts)
    if (known !== undefined) return known
    const distinct = this.#distinct
    const place = distinct.length === this.#values.length ? undefined : placesOf(this.#values)
    const numbered = (part: string, index: number) => `$${place?.[index - 1] ?? index}${part}`
    const text = this.#parts.map((part, index) => (index === 0 ? part : numbered(part, index))).join('')
    TEXTS.set(this.#parts, text)
    return text
  }

  /** In text form, as the extended protocol takes them. Objects go as JSON. */
  get values(): (string | null)[] {
    return this.#distinct.map((value) => encode(value instanceof Shared ? value.value : value))
  }

  get #distinct(): readonly SqlValue[] {
    return this.#values.some(isShared) ? distinctOf(this.#values) : this.#values
  }
}

/** Each shared value once, where it comes first. */
function distinctOf(values: readonly SqlValue[]): SqlValue[] {
  return values.filter((value, index) => !(value instanceof Shared) || values.indexOf(value) === index)
}

/** The number of each value. */
function placesOf(values: readonly SqlValue[]): number[] {
  let last = 0
  const numbers = new Map<SqlValue, number>()
  return values.map((value) => {
    const known = value instanceof Shared ? numbers.get(value) : undefined
    if (known !== undefined) return known
    last += 1
    if (value instanceof Shared) numbers.set(value, last)
    return last
  })
}

/** `` sql`select name from tenants where id = ${id}` ``; a nested Sql is spliced in. */
export function sql(parts: TemplateStringsArray, ...values: (SqlValue | Sql)[]): Sql {
  return Sql.of(parts, values)
}

/** Texts as the value of an array (PostgreSQL manual, "Arrays", input syntax). */
export const textArray = (texts: readonly string[]): string => `{${texts.map(inQuotes).join()}}`

/** Backslashes stand before quotes and themselves. So JSON has them, and quicker, where it has no other escapes. */
const inQuotes = (text: string): string =>
  ESCAPED.test(text) ? `"${text.replaceAll(/[\\"]/g, '\\$&')}"` : JSON.stringify(text)

// biome-ignore lint/suspicious/noControlCharactersInRegex: those that JSON escapes
const ESCAPED = /[\0-\x1f\p{Surrogate}]/u

/** `a, b, c` */
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
