"""One flow: a source partition that is copied to its target partition.

flow              the life of a flow: prove, copy, prove again
copy_session      what happens between a proof and the next doubt
fetcher           reads from one source broker for all its flows
fetcher_pool      the fetchers of a link
end_sampling      samples of where the source's partitions end
topic_confirmer   checks that what was fetched belongs to the flow's topic id
sender            writes to one target broker for all its flows
copy_permit       what may hold back a flow
topic_presence    whether both topics exist and may be seen
trouble_causes    troubles met while copying, and their causes
trouble_handler   what a flow does about a trouble
flow_factory      makes flows from the parts of a link
"""
