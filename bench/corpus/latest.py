# SPDX-License-Identifier: Apache-2.0
"""Architectures of the corpus that came last: newer detectors, text recognition, matching, speech, and decoders with states."""
import torch

from architectures import (BART, BATCH, IMAGE, SMALL, TEXT_SIZES, TOKENS, Entry, _cached_decoder, _decoder, _encoder, _huggingface,
                           _tokens)

ENTRIES = {}

# ---- Detectors, segmentation, matting.

_LAYERS = dict(d_model=64, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10)
_SWIN = dict(model_type="swin", image_size=128, embed_dim=24, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], window_size=4)
_DINO = dict(model_type="dinov2", hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=112, patch_size=14)
_IMAGES = lambda size: {"pixel_values": torch.rand(2, 3, size, size)}
_TOWERS = dict(text_config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000, bos_token_id=1, eos_token_id=2),
               vision_config=dict(hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, image_size=64, patch_size=16), projection_dim=32)
for _name, _model, _config, _more, _size in (
        ("efficientnet", "EfficientNetForImageClassification", "EfficientNetConfig", dict(width_coefficient=0.5, depth_coefficient=0.5, hidden_dim=640, image_size=64), 64),
        ("hgnet_v2", "HGNetV2ForImageClassification", "HGNetV2Config", {}, 64),
        ("slanet", "SLANetForTableRecognition", "SLANetConfig", dict(max_text_length=6), 128),
        ("pp_lcnet", "PPLCNetForImageClassification", "PPLCNetConfig", {}, 64)):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more, s=_size: _huggingface(m, c, o, _IMAGES(s), {"pixel_values": BATCH}, ({"batch": 1}, {"batch": 3}))
for _name, _model in (("v5_mobile", "PPOCRV5MobileDet"), ("v5_server", "PPOCRV5ServerDet"), ("v6_small", "PPOCRV6SmallDet"), ("v6_medium", "PPOCRV6MediumDet")):
    ENTRIES[f"hf_pp_ocr{_name}_det"] = lambda m=_model: _huggingface(
        m + "ForObjectDetection", m + "Config", {}, _IMAGES(96), {"pixel_values": IMAGE}, ({"batch": 1, "height": 128, "width": 64},))
for _name, _model in (("v5_mobile", "PPOCRV5MobileRec"), ("v5_server", "PPOCRV5ServerRec"), ("v6_small", "PPOCRV6SmallRec"), ("v6_tiny", "PPOCRV6TinyRec")):
    ENTRIES[f"hf_pp_ocr{_name}_rec"] = lambda m=_model: _huggingface(
        m + "ForTextRecognition", m + "Config", dict(head_out_channels=97), {"pixel_values": torch.rand(2, 3, 48, 160)}, {"pixel_values": {0: "batch", 3: "width"}},
        ({"batch": 1, "width": 320}, {"batch": 3, "width": 96}))
ENTRIES["hf_perceiver_images"] = lambda: _huggingface("PerceiverForImageClassificationConvProcessing", "PerceiverConfig", dict(num_latents=16, d_latents=64, d_model=322, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=1),
                                                      {"inputs": torch.rand(2, 3, 224, 224)}, {"inputs": BATCH}, ({"batch": 1},))
_PROMPT = lambda size, words: {"pixel_values": torch.rand(2, 3, size, size), "input_ids": _tokens(words)}
_PROMPT_DIMS = {"pixel_values": BATCH, "input_ids": TOKENS}
_PROMPT_SIZES = ({"batch": 1, "sequence": 5}, {"batch": 3, "sequence": 12})
for _name, _model, _config, _more, _size in (
        ("clipseg", "CLIPSegForImageSegmentation", "CLIPSegConfig", dict(_TOWERS, extract_layers=[0, 1, 2], reduce_dim=32), 64),
        ("git", "GitForCausalLM", "GitConfig", dict(SMALL, num_hidden_layers=2, use_cache=False, vision_config=_TOWERS["vision_config"]), 64),
        ("bridgetower", "BridgeTowerModel", "BridgeTowerConfig", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, text_config=dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, vocab_size=1000), vision_config=dict(hidden_size=64, num_hidden_layers=3, image_size=64)), 64),
        ("chinese_clip", "ChineseCLIPModel", "ChineseCLIPConfig", dict(_TOWERS), 64),
        ("groupvit", "GroupViTModel", "GroupViTConfig", dict(text_config=_TOWERS["text_config"], projection_dim=32, projection_intermediate_dim=64, vision_config=dict(hidden_size=64, intermediate_size=128, depths=[2, 1, 1], num_hidden_layers=4, num_group_tokens=[8, 4, 0], num_output_groups=[8, 4, 4], num_attention_heads=4, image_size=64)), 64)):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more, s=_size: _huggingface(m, c, o, _PROMPT(s, 8), _PROMPT_DIMS, _PROMPT_SIZES)
_PAIR_OF_IMAGES = lambda: {"pixel_values": torch.rand(2, 2, 3, 64, 64)}
ENTRIES["hf_efficientloftr"] = lambda: _huggingface("EfficientLoFTRModel", "EfficientLoFTRConfig", dict(stage_num_blocks=[1, 1, 1, 2], num_attention_layers=1), _PAIR_OF_IMAGES(), {"pixel_values": BATCH}, ({"batch": 1},))

# ---- Text, documents, images with text.

for _name, _model, _config, _more in (
        ("perceiver_text", "PerceiverForMaskedLM", "PerceiverConfig", dict(num_latents=16, d_latents=64, d_model=64, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=4, vocab_size=1000, max_position_embeddings=32)),
        ("nomic_bert", "NomicBertModel", "NomicBertConfig", {}), ("bigbird_sparse", "BigBirdModel", "BigBirdConfig", dict(block_size=4, num_random_blocks=1)),
        ("bert_generation", "BertGenerationEncoder", "BertGenerationConfig", {}), ("visual_bert_text", "VisualBertModel", "VisualBertConfig", {}),
        ("dpr", "DPRQuestionEncoder", "DPRConfig", {}), ("gte", "GteModel", "GteConfig", {}), ("jina", "JinaEmbeddingsV3Model", "JinaEmbeddingsV3Config", {}),
        ("luke_words", "LukeForMaskedLM", "LukeConfig", dict(entity_vocab_size=50, entity_emb_size=16)), ("modernbert_tokens", "ModernBertForTokenClassification", "ModernBertConfig", dict(pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, local_attention=8))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _encoder(m, c, {**SMALL, "num_hidden_layers": 2, **o})
ENTRIES["hf_lxmert"] = lambda: _huggingface("LxmertModel", "LxmertConfig", dict(vocab_size=1000, hidden_size=64, num_attention_heads=4, intermediate_size=128, l_layers=1, x_layers=1, r_layers=1, visual_feat_dim=32),
                                            {"input_ids": _tokens(9), "visual_feats": torch.rand(2, 5, 32), "visual_pos": torch.rand(2, 5, 4)}, {"input_ids": TOKENS, "visual_feats": {0: "batch", 1: "regions"}, "visual_pos": {0: "batch", 1: "regions"}}, ({"batch": 1, "sequence": 4, "regions": 7},))
ENTRIES["hf_pix2struct"] = lambda: _huggingface("Pix2StructForConditionalGeneration", "Pix2StructConfig", dict(text_config=dict(vocab_size=1000, hidden_size=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False), vision_config=dict(hidden_size=64, patch_embed_hidden_size=48, d_ff=128, d_kv=16, num_hidden_layers=2, num_attention_heads=4, seq_len=64)),
                                                {"flattened_patches": torch.rand(2, 20, 50).ceil(), "decoder_input_ids": _tokens(5)}, {"flattened_patches": {0: "batch", 1: "patches"}, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "patches": 11, "target": 1},))
_PAIR_DIMS = {"input_ids": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}
_PAIR_SIZES = ({"batch": 1, "sequence": 17, "target": 1}, {"batch": 3, "sequence": 40, "target": 9})
_GEMMA = dict(SMALL, num_hidden_layers=2, num_key_value_heads=2, head_dim=64, sliding_window=8)
for _name, _model, _config, _more in (
        ("t5gemma", "T5GemmaForConditionalGeneration", "T5GemmaConfig", dict(encoder=_GEMMA, decoder=_GEMMA, vocab_size=1000, use_cache=False)),
        ("seamless_text", "SeamlessM4TForTextToText", "SeamlessM4TConfig", dict(vocab_size=1000, hidden_size=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, speech_encoder_layers=1, t2u_encoder_layers=1, t2u_decoder_layers=1, use_cache=False))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _huggingface(m, c, o, {"input_ids": _tokens(32), "decoder_input_ids": _tokens(7)}, _PAIR_DIMS, _PAIR_SIZES)

# ---- Decoders.

_TWO = dict(SMALL, num_hidden_layers=2)
for _name, _model, _config, _more in (
        ("olmo3", "Olmo3ForCausalLM", "Olmo3Config", dict(num_key_value_heads=2, sliding_window=8)), ("nanochat", "NanoChatForCausalLM", "NanoChatConfig", dict(num_key_value_heads=2)),
        ("falcon_h1", "FalconH1ForCausalLM", "FalconH1Config", dict(num_key_value_heads=2, mamba_d_ssm=256, mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, mamba_chunk_size=16)),
        ("nemotron_h", "NemotronHForCausalLM", "NemotronHConfig", dict(hybrid_override_pattern="M*", num_key_value_heads=2, head_dim=64, mamba_num_heads=8, mamba_head_dim=32, ssm_state_size=16, n_groups=1, chunk_size=16)),
        ("kimi_linear", "KimiLinearForCausalLM", "KimiLinearConfig", {}), ("minicpm3", "MiniCPM3ForCausalLM", "MiniCPM3Config", dict(q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32)),
        ("phimoe", "PhimoeForCausalLM", "PhimoeConfig", dict(num_key_value_heads=2, num_local_experts=4)), ("granitemoehybrid", "GraniteMoeHybridForCausalLM", "GraniteMoeHybridConfig", dict(num_key_value_heads=2, num_local_experts=2, layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=64, mamba_d_state=16, mamba_chunk_size=16)),
        ("imagegpt", "ImageGPTModel", "ImageGPTConfig", dict(n_embd=64, n_layer=2, n_head=4)), ("modernbert_decoder", "ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, local_attention=8)),
        ("gpt_neox_japanese", "GPTNeoXJapaneseForCausalLM", "GPTNeoXJapaneseConfig", {}), ("zamba", "ZambaForCausalLM", "ZambaConfig", dict(mamba_d_state=8, n_mamba_heads=2, attn_layer_period=2, attn_layer_offset=1, use_mamba_kernels=False)),
        ("moshi", "MoshiForCausalLM", "MoshiConfig", dict(num_key_value_heads=4, head_dim=64, ffn_dim=256))):
    ENTRIES["hf_" + _name] = lambda m=_model, c=_config, o=_more: _decoder(m, c, {**_TWO, "use_cache": False, **o})
for _name, _model, _config, _more, _heads, _size in (
        ("falcon", "FalconForCausalLM", "FalconConfig", dict(multi_query=True, new_decoder_architecture=False), 1, 64),
        ("olmo3", "Olmo3ForCausalLM", "Olmo3Config", dict(num_key_value_heads=2, layer_types=["full_attention"] * 2), 2, 64),
        ("biogpt", "BioGptForCausalLM", "BioGptConfig", {}, 4, 64), ("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", dict(num_key_value_heads=2, head_dim=64, layer_types=["full_attention"] * 2), 2, 64),
        ("moshi", "MoshiForCausalLM", "MoshiConfig", dict(num_key_value_heads=4, head_dim=64, ffn_dim=256), 4, 64), ("nanochat", "NanoChatForCausalLM", "NanoChatConfig", dict(num_key_value_heads=2), 2, 64)):
    ENTRIES["cached_" + _name] = lambda m=_model, c=_config, o=_more, h=_heads, s=_size: _cached_decoder(m, c, {**_TWO, **o}, h, s)

# ---- Speech and sound.

_WAVES = lambda: {"input_values": torch.randn(2, 1, 9600)}
ENTRIES["hf_bark_coarse"] = lambda: _huggingface("BarkCoarseModel", "BarkCoarseConfig", dict(hidden_size=64, num_layers=2, num_heads=4, input_vocab_size=1000, output_vocab_size=1000, block_size=128, use_cache=False), {"input_ids": _tokens(16)}, {"input_ids": TOKENS}, TEXT_SIZES)
ENTRIES["hf_seamless_speech"] = lambda: _huggingface("SeamlessM4TForSpeechToText", "SeamlessM4TConfig", dict(vocab_size=1000, hidden_size=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, speech_encoder_layers=1, speech_encoder_attention_heads=4, speech_encoder_intermediate_size=128, feature_projection_input_dim=40, t2u_encoder_layers=1, t2u_decoder_layers=1, use_cache=False),
                                                     {"input_features": torch.randn(2, 32, 40), "decoder_input_ids": _tokens(4)}, {"input_features": {0: "batch", 1: "frames"}, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "frames": 24, "target": 1},))
ENTRIES["hf_speecht5_text"] = lambda: _huggingface("SpeechT5ForSpeechToText", "SpeechT5Config", dict(hidden_size=128, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, num_conv_pos_embedding_groups=4, num_conv_pos_embeddings=16, use_cache=False),
                                                   {"input_values": torch.randn(2, 8000), "decoder_input_ids": _tokens(4, 2, 80)}, {"input_values": TOKENS, "decoder_input_ids": {0: "batch", 1: "target"}}, ({"batch": 1, "sequence": 9000, "target": 2},))
ENTRIES["hf_timesfm"] = lambda: _huggingface("TimesFmModel", "TimesFmConfig", dict(hidden_size=64, intermediate_size=64, head_dim=16, num_attention_heads=4, num_hidden_layers=2, context_length=128), {"past_values": torch.randn(2, 128), "past_values_padding": torch.zeros(2, 128), "freq": torch.zeros(2, 1, dtype=torch.int64)}, {"past_values": BATCH, "past_values_padding": BATCH, "freq": BATCH}, ({"batch": 1},))


class Transducer(torch.nn.Module):
    """The prediction and the joint network of a transducer, one step: states of its LSTM are inputs and results."""

    def __init__(self):
        super().__init__()
        self.embedding, self.recurrent = torch.nn.Embedding(60, 32), torch.nn.LSTM(32, 48, 2)
        self.sound, self.text, self.joint = torch.nn.Linear(40, 64), torch.nn.Linear(48, 64), torch.nn.Linear(64, 60)

    def forward(self, sound, tokens, hidden, cell):
        text, (hidden, cell) = self.recurrent(self.embedding(tokens).transpose(0, 1), (hidden, cell))
        joint = torch.relu(self.sound(sound).unsqueeze(2) + self.text(text.transpose(0, 1)).unsqueeze(1))
        return torch.log_softmax(self.joint(joint), -1), hidden, cell


ENTRIES["own_transducer"] = lambda: Entry(Transducer(), {"sound": torch.randn(2, 7, 40), "tokens": torch.randint(0, 60, (2, 3)), "hidden": torch.randn(2, 2, 48), "cell": torch.randn(2, 2, 48)},
                                          {"sound": {0: "batch", 1: "frames"}, "tokens": {0: "batch", 1: "target"}, "hidden": {1: "batch"}, "cell": {1: "batch"}}, ({"batch": 1, "frames": 4, "target": 1}, {"batch": 3, "frames": 9, "target": 5}))
