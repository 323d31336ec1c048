/** What was set of late, and only so many of it: for what is remembered of others, who may name as many as they like. */

/** A map in the order of the last `set` of each key; one more than fits takes the place of the first. */
export class Recent<Value> extends Map<string, Value> {
  readonly #max: number

  constructor(max: number) {
    super()
    this.#max = max
  }

  override set(key: string, value: Value): this {
    this.delete(key)
    super.set(key, value)
    const [oldest] = this.keys()
    if (this.size > this.#max && oldest !== undefined) this.delete(oldest)
    return this
  }
}
