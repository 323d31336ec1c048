/** Joins texts to sentences, each with a final stop and one space before the next. */

/** @param texts empty ones and undefined are left out */
export const sentences = (...texts: readonly (string | undefined)[]): string =>
  texts.flatMap((text) => (text === undefined || text === '' ? [] : [ended(text)])).join(' ')

const ended = (text: string): string => (/[.!?…]["'`)]?$/.test(text) ? text : `${text}.`)
