/** What a payload says of itself on its way to the codec, in its metadata. Only our converters say it: no value can. */

/** The name in the metadata of a payload (Temporal API, `Payload.metadata`). */
export const MARK = 'tenon'

/**
 * `open`: words for operators that no data is in; they stay as they are. `inside`: given to an activity beside the run, and so
 * never sent; neither. `failure` and `detail`: of a failure, which is sent in any case, if need be without them.
 */
export type Mark = 'open' | 'inside' | 'failure' | 'detail'
