/** Names of segments of PostgreSQL's write-ahead log: timeline, log and segment in hexadecimal, 16 MiB each. */

export interface WalSegment {
  readonly timeline: number
  /** Counts from the first segment of all. */
  readonly number: number
}

export const WAL_BYTES = 16_777_216
/** Segments of 16 MiB in a log of 4 GiB. */
const PER_LOG = 256
const NAME = /^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$/

/** @returns undefined if it is not the name of a complete segment */
export function parseSegment(name: string): WalSegment | undefined {
  const [, timeline = '', log = '', segment = ''] = NAME.exec(name) ?? []
  if (timeline === '') return undefined
  return {
    timeline: Number.parseInt(timeline, 16),
    number: Number.parseInt(log, 16) * PER_LOG + Number.parseInt(segment, 16),
  }
}

export function segmentName({ timeline, number }: WalSegment): string {
  const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')
  return `${hex(timeline)}${hex(Math.floor(number / PER_LOG))}${hex(number % PER_LOG)}`
}

export const nextSegment = (name: string): string => {
  const segment = parseSegment(name)
  if (segment === undefined) throw new TypeError(`${name} is no segment`)
  return segmentName({ ...segment, number: segment.number + 1 })
}

/** True for the files that say how a timeline branched off, such as `00000002.history`. */
export const isHistory = (name: string): boolean => /^[0-9A-F]{8}\.history$/.test(name)
