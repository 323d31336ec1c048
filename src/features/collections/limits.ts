/** Limits of documents, queries, rules, schemas and indexes. */

export const COLLECTION_LIMITS = {
  // Documents
  /** Bytes of a document as JSON. A larger one is refused with `body_too_large` (413). */
  documentBytesMax: 262_144,
  /** Keys of a document, at all depths together. More are refused with `validation_failed`. */
  documentKeysMax: 1_000,
  /** Bytes of a field's name. A longer one is refused with `validation_failed`. */
  fieldNameBytesMax: 200,
  /** Characters of a header that lists entity tags. A longer one is refused with `validation_failed`. */
  conditionCharsMax: 1_000,
  /** Changes with an idempotency key that a document in MongoDB remembers. After as many others, a retry gets `idempotency_outcome_unknown`. */
  idempotencyMarksMax: 50,

  /** Paths that the operators of a change name. More are refused with `validation_failed`. */
  operatorPathsMax: 100,

  // Batches
  /** Operations of a batch. More are refused with `validation_failed`. */
  batchOperationsMax: 500,
  /** Bytes of the body of a batch. More are refused with `body_too_large` (413). */
  batchBytesMax: 4_194_304,
  /** Diagnostics of each operation of a batch that is not atomic. Further ones are left out. */
  batchDiagnosticsReturnedMax: 3,
  /** Attempts of all operations of a batch together. Then the batch is refused with `overloaded`. */
  batchAttemptsMax: 5_000,

  // Bulk changes
  /** Documents that a bulk change looks at together, by what it does. Further ones are next. */
  bulkDocuments: { update: 100, delete: 500 },
  /** Bulk changes under way in a workspace at the same time: those of one user, and those of all other callers together. A further one is refused with `state_conflict`. */
  bulkChangesOpenMax: { user: 3, service: 10 },
  /** Milliseconds for which one attempt of a bulk change goes on. Then the next one does. */
  bulkServedMs: 5_000,
  /** Milliseconds for which a step of a bulk change waits for a server that is away. Then the change has failed. */
  bulkStepMs: 86_400_000,
  /** Milliseconds after which a bulk change of a suspended workspace asks whether it was resumed. Then it asks again. */
  bulkSuspendedMs: 30_000,
  /** Times that a document which others change at the moment is tried. Then it counts as failed. */
  bulkAttemptsMax: 10,
  /** Attempts at a query for the next documents of a bulk change, each of which took too long. Then the change has failed with `query_timeout`. */
  bulkTimeoutsMax: 3,
  /** Failures of a bulk change that are listed. Further ones are counted. */
  bulkFailuresReturnedMax: 20,
  /** Seconds after which an open bulk change is compared with its workflow again. Then it is. */
  bulkRecheckSeconds: 300,
  /** Duration for which an ended bulk change is kept. Then its record is removed. */
  bulkChangesKept: '30d',
  /** Records of ended bulk changes that are removed at a time. Further ones are removed next. */
  bulkRemovedMax: 1_000,

  // Queries
  /** Names of a path. A longer path is refused; deeper fields are not indexed in MongoDB. */
  pathDepthMax: 10,
  /** Filters of a query, those in groups among them. More are refused with `filter_too_large`. */
  filtersMax: 50,
  /** Levels of nesting of groups of filters. More are refused. */
  filterDepthMax: 10,
  /** Elements of a list in a filter. More are refused. */
  filterValuesMax: 500,
  /** Members of an object in a `cd` filter: every subset of them is a search term. More are refused. */
  filterMembersMax: 8,
  /** Names and values of a JSON filter, slightly more than 50 lists of 500 values. More are refused. */
  filterPartsMax: 30_000,
  /** Wildcards of a pattern. More are refused. */
  patternWildcardsMax: 10,
  /** Characters of a pattern. More are refused. */
  patternCharsMax: 10_000,
  /** Keys of an order. More are refused. */
  orderKeysMax: 8,
  /** Fields that a query selects, or a change unsets. More are refused. */
  fieldsSelectedMax: 100,
  /** Documents that a query in a body may ask for. A larger number is refused with `validation_failed`. */
  queryDocumentsMax: 1_000,
  /** Documents up to which `count=estimated` is exact. Beyond them, it is the estimate of the query planner. */
  exactCountMax: 1_000,
  /** Queries that no index narrows, of PostgreSQL's collections. */
  scans: {
    /** Such queries of a tenant that a process runs at a time. Further ones wait. */
    tenantMax: 2,
    /** Such queries that a process runs at a time, of which the last is kept for a tenant that runs none. Further ones wait. */
    processMax: 4,
    /** Milliseconds for which one waits. Then it is refused with `overloaded`, which names the index to declare. */
    waitMs: 5_000,
    /** Such queries of a tenant that wait. Further ones are refused in the same way. */
    waitingMax: 32,
  },
  // Aggregates
  /** Fields that an aggregate groups by. More are refused with `select_invalid`. */
  groupFieldsMax: 8,
  /** Measures of an aggregate. More are refused with `select_invalid`. */
  measuresMax: 20,
  /** Groups of a page if the request states no size. Further ones are on the next page. */
  groupsDefault: 1_000,
  /** Groups of a page that a request may ask for. A larger number is refused with `validation_failed`. */
  groupsMax: 10_000,
  /** Documents that the planner expects an aggregate of an anon key or a user to read. With more, it is refused with `query_too_costly` (422). */
  plannedRowsMax: 1_000_000,
  /** Aggregates of any caller. */
  aggregates: {
    /** Aggregates of a workspace that a process runs at a time. Further ones wait. */
    workspaceMax: 2,
    /** Milliseconds for which one waits. Then it is refused with `overloaded`. */
    waitMs: 5_000,
    /** Aggregates of a workspace that wait. Further ones are refused in the same way. */
    waitingMax: 32,
  },

  /** Characters of a cursor, which clients send back in a URL with the filters. A longer one is refused with `cursor_too_large`. */
  cursorCharsMax: 4_096,

  // References
  /** Filters of a query on the documents of references. More are refused with `filter_too_large`. */
  relatedMax: 5,
  /** References that such a filter leads over. More are refused with `filter_too_large`. */
  relatedHopsMax: 2,
  /** Characters of `expand` as a text. A longer one is refused with `validation_failed`. */
  expandCharsMax: 4_096,
  /** Levels of `expand`. More are refused with `expand_invalid`. */
  expandLevelsMax: 3,
  /** Branches of `expand`, at all levels together. More are refused with `expand_invalid`. */
  expandBranchesMax: 10,
  /** Documents that a branch of `expand` returns for each document, unless it says how many. Further ones are left out. */
  expandSizeDefault: 20,
  /** Documents that a branch of `expand` may ask for, for each document. A larger number is refused with `expand_invalid`. */
  expandSizeMax: 100,
  /** Documents of all branches of `expand` in one reply. More are refused with `output_too_large`. */
  expandedDocumentsMax: 2_000,
  /** Documents that one deletion deletes or changes by references. With more, it is refused with `cascade_too_large`. */
  cascadeDocumentsMax: 10_000,
  /** Documents that a refused deletion names as those in its way. Further ones are left out. */
  referringShownMax: 20,

  // MongoDB
  /** Documents of one collection in MongoDB that an aggregate, a branch of `expand` or a filter through a reference reads. With more, it is refused with `query_too_costly` (422). */
  mongoDocumentsReadMax: 20_000,

  // Rules on documents (`access` of a declaration)
  /** Characters of a rule as JSON. A longer one is refused with `validation_failed`. */
  ruleCharsMax: 8_000,
  /** Levels of nesting of a rule. More are refused with `validation_failed`. */
  ruleDepthMax: 5,
  /** Tests of a rule. More are refused with `validation_failed`. */
  ruleTestsMax: 30,
  /** Characters of all patterns of a rule, since comparing takes their product with the text. More are refused with `validation_failed`. */
  rulePatternCharsMax: 500,
  /** Lookups of a declaration. More are refused with `validation_failed`. */
  ruleLookupsMax: 5,
  /** Values of a lookup for one user. With more, tests on it match no document. */
  ruleLookupValuesMax: 500,
  /** Steps of evaluating a rule on one document in the process, a few milliseconds. With more, the rule does not match. */
  ruleStepsMax: 1_000_000,
  /** Steps of evaluating the filter of a live query on one document, about a millisecond. With more, its stream ends with `query_too_costly`. */
  liveFilterStepsMax: 250_000,
  /** Documents of which a live query remembers whether it has shown them. Of others a change may be told as `enter` or `leave` once more. */
  liveDocumentsRemembered: 1_000,

  // Schemas
  /** Schemas of a workspace. A further one is refused with `quota_exceeded`. */
  schemasMax: 500,
  /** Bytes of a schema as JSON. A larger one is refused with `schema_invalid`. */
  schemaBytesMax: 65_536,
  /** Levels of nesting of a schema. A deeper one is refused with `schema_invalid`. */
  schemaDepthMax: 32,
  /** Subschemas of a schema. More are refused with `schema_invalid`. */
  schemaNodesMax: 1_000,
  /** Subschemas with the target of a reference counted once per reference. More are refused with `schema_invalid`. */
  schemaNodesExpandedMax: 5_000,
  /** Values of an `enum`. More are refused with `schema_invalid`. */
  schemaEnumValuesMax: 500,
  /** Steps of a validation on the main thread, about 3 ms. A longer one moves to a worker thread. */
  validationStepsMax: 10_000,
  /** Milliseconds of CPU time of a worker thread for one document. Then it is refused with `validation_too_costly`. */
  validationMs: 200,
  /** Documents that a change of a schema validates at a time. Further ones are validated next. */
  validationBatchDocuments: 500,
  /** Milliseconds of validating the existing documents. Then the change is refused with `query_timeout`. */
  validationOfExistingMs: 60_000,
  /** Documents written during that validation which are validated under a lock. While there are more, another round runs without it. */
  validatedUnderLockMax: 200,

  /** Documents of a collection that is declared when it has them. With more, the declaration is refused with `state_conflict`. */
  adoptedDocumentsMax: 200_000,
  /** Documents by which a schema is proposed. Further ones are not read. */
  inferredDocumentsMax: 1_000,
  /** Different names of members of an object inside documents that a proposed schema lists. With more, the object is taken for a map. */
  inferredMembersMax: 50,
  /** Documents of a collection that is not declared, or in MongoDB, which is dropped, emptied or renamed. With more, that is refused with `state_conflict`. */
  wholeDocumentsMax: 100_000,
  /** Users of a collection that a refusal to drop, empty or rename it names. Further ones are left out. */
  usersNamedMax: 20,

  // Tables and indexes
  /** Columns of a collection's table. Further properties have no column of their own. */
  tableColumnsMax: 200,
  /** Columns in the lifetime of a table, since PostgreSQL counts dropped ones. Then a change is refused with `state_conflict`. */
  tableColumnsEverMax: 1_500,
  /** Texts of statements that are cached for each table. The least recently used is dropped. */
  statementTextsCachedMax: 100,
  /** Tables of undeclared collections that a process caches. The least recently used is dropped. */
  undeclaredTablesCachedMax: 500,
  /** Indexes of a collection, unique ones included. More are refused. */
  indexesMax: 16,
  /** Texts of a collection that are found by similarity. More are refused with `validation_failed`. */
  trigramsMax: 4,
  /** Characters of the text that `near` looks for. A longer one is refused with `filter_invalid`. */
  nearCharsMax: 200,
  /** Arrays of a collection with an index of their elements. More are refused with `validation_failed`. */
  arraysMax: 4,
  /** Fields of a search. More are refused with `validation_failed`. */
  searchFieldsMax: 8,
  /** Documents of a collection whose declaration gets a search, since others wait while their words are computed. With more, the change is refused with `state_conflict`. */
  searchDocumentsMax: 50_000,
  /** Characters of the text of a search. A longer one is refused with `filter_invalid`. */
  searchCharsMax: 1_000,
  /** Documents that a search orders by their score. If more match, these are any of them, and the page says `approximate`. */
  searchRankedMax: 10_000,
  /** Documents of a collection that are searched without an index. With more, the search is refused with `not_supported`. */
  searchWithoutIndexMax: 20_000,
  /** Characters at the beginning of a text that a highlight is taken from. What is behind them is not highlighted. */
  highlightCharsMax: 50_000,
  /** References of a collection. More are refused with `validation_failed`. */
  referencesMax: 10,
  /** Checks of a collection. More are refused with `validation_failed`. */
  checksMax: 16,
  /** Characters of the message of a check. A longer one is refused with `validation_failed`. */
  checkMessageCharsMax: 200,
  /** Members of `exclude` of a collection. More are refused with `validation_failed`. */
  exclusionsMax: 4,
  /** Documents of a collection whose declaration gets a member of `exclude`, since others wait for its index. With more, the change is refused with `state_conflict`. */
  exclusionDocumentsMax: 100_000,
  /** Documents that expire. */
  expiry: {
    /** Milliseconds of `after` at least. Less is refused with `validation_failed`. */
    afterMsMin: 1_000,
    /** Milliseconds of `after` at most, a hundred years. More is refused with `validation_failed`. */
    afterMsMax: 3_153_600_000_000,
    /** Seconds between two rounds of a collection, in which its expired documents are deleted. Then the next round is due. */
    pauseSeconds: 30,
    /** Documents that one statement deletes. Further ones are deleted next. */
    documentsMax: 500,
    /** Documents in MongoDB that are read for each that a statement may delete. Further ones are read in the next round. */
    readPerDeletion: 20,
    /** Collections of which a process knows where the next round goes on: in MongoDB, and those with references that take documents along. In others it starts with the first document. */
    walksMax: 10_000,
    /** Milliseconds of a round. Then the rest waits for the next one. */
    servedMs: 10_000,
    /** Collections whose documents are deleted at a time. Further ones wait. */
    collectionsMax: 8,
    /** Expired documents that stay which are counted. Further ones are not. */
    keptMax: 1_000,
  },
  /** Fields of an index. More are refused with `validation_failed`. */
  indexFieldsMax: 4,
  /** Indexes that a worker builds at a time, each with a connection of its own. Further ones wait. */
  indexBuildsMax: 4,
  /** Milliseconds of building an index. Then the build fails. */
  indexBuildMs: 86_400_000,
  /** Milliseconds without a heartbeat of a build. Then another worker repeats it. */
  indexHeartbeatMs: 30_000,

  // Import and export
  /** Lines that an import stores together. Further ones are stored next. */
  importChunkLines: 500,
  /** Bytes of lines that an import stores together. Further ones are stored next. */
  importChunkBytes: 1_048_576,
  /** Bytes of a line of an import. A line above `bodyBytesMax` fails alone; one above this ends the import. */
  importLineBytesMax: 67_108_864,
  /** Columns of a CSV file. With more, its import is refused. */
  csvColumnsMax: 2_000,
  /** Lines that wait for a later line to which they refer. Further ones fail at once. */
  importWaitingLines: 10_000,
  /** Bytes of those lines. Further ones fail at once. */
  importWaitingBytes: 16_777_216,
  /** Lines of a dry run. With more, it ends with `body_too_large`. */
  importDryRunLines: 100_000,
  /** Characters of the message about a line that failed. A longer one is cut. */
  importMessageCharsMax: 500,
  /** Documents of the first page that an export reads. Further pages depend on their size. */
  exportFirstDocuments: 100,
  /** Documents of a page that an export reads. Further ones are on the next page. */
  exportDocumentsMax: 1_000,
  /** Bytes of such a page, in which at least four of the largest documents fit. Further documents are on the next page. */
  exportPageBytes: 1_048_576,
  /** Characters that an export collects. Then they are sent. */
  exportPieceChars: 65_536,
} as const
