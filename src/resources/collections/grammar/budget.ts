/** How much one query may ask: every test counts, wherever it stands, and groups have a depth. */

import { LIMITS } from '../../../core/limits.ts'
import { refusal, type Source } from './text.ts'

export class Budget {
  #left: number = LIMITS.filtersMax

  /** One more test. @throws Problem `filter_too_large` */
  spend(source: Source): void {
    this.#left -= 1
    if (this.#left >= 0) return
    const detail = `A query has at most ${LIMITS.filtersMax} filters, those in groups among them.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }

  /** @param depth of the group that opens, 1 for the outermost. @throws Problem `filter_invalid` */
  open(depth: number, source: Source): void {
    if (depth > LIMITS.filterDepthMax)
      throw refusal(source, `Filters are nested at most ${LIMITS.filterDepthMax} deep.`)
  }
}
