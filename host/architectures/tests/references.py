"""The implementation of each architecture in torchvision or transformers, how to run it, and shapes of inputs."""

import torchvision
import transformers

IMAGE = {"image": (2, 3, 224, 224)}


def vision(make):
    return lambda: (make(weights=None), lambda model, feeds: [model(feeds["image"])], IMAGE)


def text(shape, *names):
    return {name: shape for name in names}


def bert():
    model = transformers.BertModel(transformers.BertConfig())
    names = ("input_ids", "attention_mask", "token_type_ids")
    def run(model, feeds):
        out = model(**feeds)
        return [out.last_hidden_state, out.pooler_output]
    return model, run, text((2, 48), *names)


def causal(make):
    def build():
        run = lambda model, feeds: [model(feeds["input_ids"]).logits]
        return make(), run, text((2, 48), "input_ids")
    return build


def tiny_llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
        num_attention_heads=32, num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5))


def t5():
    config = transformers.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)
    model = transformers.T5ForConditionalGeneration(config)
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    return model, lambda model, feeds: [model(**feeds).logits], text((2, 200), *names)


def clip():
    config = transformers.CLIPConfig()
    # The value with which the end of a text is its highest token, as in the authors' code.
    config.text_config.eos_token_id = 2
    model = transformers.CLIPModel(config)
    def run(model, feeds):
        out = model(**feeds)
        return [out.image_embeds, out.text_embeds, out.logits_per_image]
    return model, run, {"pixel_values": (2, 3, 224, 224), "input_ids": (2, 77)}


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=51865, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536)
    model = transformers.WhisperForConditionalGeneration(config)
    shapes = {"input_features": (2, 80, 3000), "decoder_input_ids": (2, 48)}
    return model, lambda model, feeds: [model(**feeds).logits], shapes


def detr():
    config = transformers.DetrConfig(use_pretrained_backbone=False)
    model = transformers.DetrForObjectDetection(config)
    def run(model, feeds):
        out = model(feeds["pixel_values"])
        return [out.logits, out.pred_boxes]
    return model, run, {"pixel_values": (1, 3, 800, 1066)}


REFERENCES = {
    "resnet18": vision(torchvision.models.resnet18),
    "resnet50": vision(torchvision.models.resnet50),
    "mobilenet_v3_large": vision(torchvision.models.mobilenet_v3_large),
    "efficientnet_b0": vision(torchvision.models.efficientnet_b0),
    "vit_b_16": vision(torchvision.models.vit_b_16),
    "detr_resnet50": detr,
    "bert_base": bert,
    "gpt2": causal(lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config())),
    "llama_1b": causal(tiny_llama),
    "t5_small": t5,
    "clip_vit_b32": clip,
    "whisper_tiny": whisper,
}
