/** One question to a cluster, asked through Kafka's own client. */
interface Scenario {
    /** Returns what a client sees: maps, lists, strings, numbers, booleans and null. */
    Object play(Here here) throws Exception;
}
