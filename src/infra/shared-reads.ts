/** Lets concurrent callers share reads of the same thing, without a cache: a caller gets only what was read after it asked. */

interface Reading<T> {
  readonly result: Promise<T>
  hasBegun: boolean
  /** The read after it, for all callers that ask meanwhile. */
  next: Promise<T> | undefined
}

export class SharedReads<T> {
  readonly #readings = new Map<string, Reading<T>>()

  /**
   * Reads by `read`, or shares a read of the same name that begins after this call.
   * @throws the error of `read`, for all who share it
   */
  load(name: string, read: () => Promise<T>): Promise<T> {
    const reading = this.#readings.get(name)
    if (reading === undefined) return this.#schedule(name, read)
    if (!reading.hasBegun) return reading.result
    const again = () => this.#schedule(name, read)
    reading.next ??= reading.result.then(again, again)
    return reading.next
  }

  /** Begins when all callers that the event loop has at hand by now have joined. */
  #schedule(name: string, read: () => Promise<T>): Promise<T> {
    const { promise: result, resolve, reject } = Promise.withResolvers<T>()
    const reading: Reading<T> = { result, hasBegun: false, next: undefined }
    this.#readings.set(name, reading)
    const end = () => {
      if (reading.next === undefined) this.#readings.delete(name)
    }
    result.then(end, end)
    setImmediate(() => {
      reading.hasBegun = true
      read().then(resolve, reject)
    })
    return result
  }
}
